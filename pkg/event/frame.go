package event

import (
	"bytes"
	"fmt"
	"iter"
	"time"
)

// Frame is what one message of the log carries: consecutive events of one request, as JSON lines. Dialects that pass
// events on as they are need not decode them. A frame is immutable and shared between readers.
type Frame struct {
	Incarnation string
	Epoch       uint64
	First       uint64    // n of the first event
	Names       []Name    // one for each line
	Lines       []byte    // the events, each ended by '\n'
	Sequence    uint64    // of the message in the stream; 0 where the frame came from elsewhere
	Time        time.Time // when it was stored, by the broker's clock
}

// Next is the n that follows the frame's last event.
func (f Frame) Next() uint64 { return f.First + uint64(len(f.Names)) }

// Terminal reports whether the frame ends its request.
func (f Frame) Terminal() bool { return len(f.Names) > 0 && f.Names[len(f.Names)-1].IsTerminal() }

// From returns the part of f that starts at event n; f itself when n comes before it, nothing when n comes after.
func (f Frame) From(n uint64) Frame {
	if n <= f.First {
		return f
	}
	skip := min(n-f.First, uint64(len(f.Names)))
	for range skip {
		f.Lines = f.Lines[bytes.IndexByte(f.Lines, '\n')+1:]
	}
	f.First += skip
	f.Names = f.Names[skip:]
	return f
}

// Before returns the part of f that comes before event n; f itself when it ends before n, nothing when it starts there or
// later.
func (f Frame) Before(n uint64) Frame {
	keep := min(max(n, f.First)-f.First, uint64(len(f.Names)))
	end := 0
	for range keep {
		end += bytes.IndexByte(f.Lines[end:], '\n') + 1
	}
	f.Lines = f.Lines[:end:end]
	f.Names = f.Names[:keep:keep]
	return f
}

// Upto returns the first events of f that take size bytes together at most, and at least one.
func (f Frame) Upto(size int) Frame {
	if len(f.Lines) <= size {
		return f
	}
	end, events := 0, 0
	for events < len(f.Names) {
		next := end + bytes.IndexByte(f.Lines[end:], '\n') + 1
		if events > 0 && next > size {
			break
		}
		end, events = next, events+1
	}
	f.Lines = f.Lines[:end:end]
	f.Names = f.Names[:events:events]
	return f
}

// Line is one event of a frame, still encoded.
type Line struct {
	N    uint64
	Name Name
	JSON []byte // without the line break
}

// Each yields the frame's lines in order, without copying them.
func (f Frame) Each() iter.Seq[Line] {
	return func(yield func(Line) bool) {
		rest := f.Lines
		for i, name := range f.Names {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 || !yield(Line{N: f.First + uint64(i), Name: name, JSON: rest[:end]}) {
				return
			}
			rest = rest[end+1:]
		}
	}
}

// Events decodes the frame.
func (f Frame) Events() ([]Event, error) {
	events := make([]Event, 0, len(f.Names))
	for line := range f.Each() {
		e, err := Decode(line.JSON)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", line.N, err)
		}
		events = append(events, e)
	}
	return events, nil
}
