package sse

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// MaxEvent is the largest event, in bytes, that a [Parser] collects.
const MaxEvent = 8 << 20

// ErrTooLong means that an event is larger than [MaxEvent].
var ErrTooLong = errors.New("sse: event is too long")

// Event is what a stream dispatched.
type Event struct {
	ID   string // the last id that the stream gave, by this event or an earlier one
	Name string // "message" where the stream named none
	Data []byte // the data lines, joined by LF
}

// Parser turns a stream, in chunks of any size, into events. The zero value is ready. It is not safe for concurrent use.
type Parser struct {
	line    []byte // of the line that is still open
	data    []byte
	name    string
	id      string // of the event that is still open
	lastID  string // of what was dispatched
	retry   time.Duration
	started bool // the first line was seen, so that a byte order mark is no longer expected
	afterCR bool // an LF that comes now belongs to the CR before it
}

// LastID is the id to resume after: of the last event that was complete.
func (p *Parser) LastID() string { return p.lastID }

// Retry is the wait before a reconnect that the stream asked for last, and 0 when it asked for none.
func (p *Parser) Retry() time.Duration { return p.retry }

// Feed takes the next chunk and returns the events that are complete with it. What is not complete is kept for the next
// chunk, and is lost with the stream, as the standard demands. After [ErrTooLong] the parser is of no more use.
func (p *Parser) Feed(chunk []byte) ([]Event, error) {
	var events []Event
	for len(chunk) > 0 {
		if p.afterCR {
			p.afterCR = false
			if chunk[0] == '\n' {
				chunk = chunk[1:]
				continue
			}
		}
		end := lineEnd(chunk)
		if end < 0 {
			end = len(chunk)
		}
		if len(p.line)+len(p.data)+end > MaxEvent {
			return events, ErrTooLong
		}
		p.line = append(p.line, chunk[:end]...)
		if end == len(chunk) {
			break
		}
		p.afterCR = chunk[end] == '\r'
		chunk = chunk[end+1:]
		if e, ok := p.endLine(); ok {
			events = append(events, e)
		}
	}
	return events, nil
}

// endLine interprets the open line, and reports the event that it completes.
func (p *Parser) endLine() (Event, bool) {
	line := p.line
	p.line = p.line[:0]
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(line) == 0 {
		return p.dispatch()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		p.data = append(append(p.data, value...), '\n')
	case "event":
		p.name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.id = string(value)
		}
	case "retry":
		p.setRetry(string(value))
	}
	return Event{}, false
}

func (p *Parser) dispatch() (Event, bool) {
	p.lastID = p.id
	name := p.name
	p.name = ""
	if len(p.data) == 0 {
		return Event{}, false
	}
	if name == "" {
		name = "message"
	}
	e := Event{ID: p.lastID, Name: name, Data: bytes.Clone(p.data[:len(p.data)-1])}
	p.data = p.data[:0]
	return e, true
}

// setRetry takes digits only, and no more than a duration can hold.
func (p *Parser) setRetry(digits string) {
	ms, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || ms > math.MaxInt64/uint64(time.Millisecond) {
		return
	}
	p.retry = time.Duration(ms) * time.Millisecond
}

// Parse reads the events of a chunk that starts at the beginning of an event, and returns the remainder after the last
// complete one, to be put before the next chunk (agent event protocol, parseSSEChunk). A [Parser] does the same without
// reading any byte twice.
func Parse(chunk []byte) (events []Event, remainder []byte, err error) {
	end := lastBlankLine(chunk)
	var p Parser
	events, err = p.Feed(chunk[:end])
	if err != nil {
		return events, chunk[end:], fmt.Errorf("parse %d bytes: %w", len(chunk), err)
	}
	return events, chunk[end:], nil
}

// lastBlankLine returns the offset just after the last blank line of chunk. A CR at the very end may be half of a CRLF,
// so it ends nothing yet.
func lastBlankLine(chunk []byte) int {
	end, blank := 0, true
	for i := 0; i < len(chunk); i++ {
		switch {
		case chunk[i] != '\r' && chunk[i] != '\n':
			blank = false
			continue
		case chunk[i] == '\r' && i+1 == len(chunk):
			return end
		case chunk[i] == '\r' && chunk[i+1] == '\n':
			i++
		}
		if blank {
			end = i + 1
		}
		blank = true
	}
	return end
}
