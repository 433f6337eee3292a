package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

// eventPrefix begins a line of output that is an event: ::event {"type":"progress","data":{"percent":40}}.
const eventPrefix = "::event "

// maxEventLine bounds a line that is kept until its end is read.
const maxEventLine = event.MaxCustomBytes + 1<<10

// eventLines passes output on without the lines that are events, which it collects. It is for one writer at a time.
type eventLines struct {
	next   io.Writer
	events []event.Custom
	bytes  int    // of their types and data
	line   []byte // the beginning of a line that may be an event
	plain  bool   // the rest of the line is not an event
}

// Write never fails, if next does not.
func (w *eventLines) Write(piece []byte) (int, error) {
	size := len(piece)
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n') + 1
		part := piece
		if end > 0 {
			part = piece[:end]
		}
		piece = piece[len(part):]
		if err := w.add(part, end > 0); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// add adds a part of a line, which ends the line if ended is set.
func (w *eventLines) add(part []byte, ended bool) error {
	if !w.plain {
		w.line = append(w.line, part...)
		shown := min(len(w.line), len(eventPrefix))
		w.plain = string(w.line[:shown]) != eventPrefix[:shown] || len(w.line) > maxEventLine
		part = nil
		if w.plain {
			part, w.line = w.line, nil
		}
	}
	if w.plain {
		w.plain = !ended
		_, err := w.next.Write(part)
		return err
	}
	if ended {
		return w.flush()
	}
	return nil
}

// flush ends a line. One that cannot be an event is passed on, with the reason.
func (w *eventLines) flush() error {
	line := w.line
	w.line, w.plain = nil, false
	text, found := bytes.CutPrefix(line, []byte(eventPrefix))
	if !found {
		_, err := w.next.Write(line)
		return err
	}
	custom, err := parseEvent(text)
	if size := len(custom.Type) + len(custom.Data); err == nil && w.bytes+size > tool.MaxEventBytes {
		err = fmt.Errorf("the events of a call have at most %d bytes", tool.MaxEventBytes)
	}
	if err == nil {
		w.events, w.bytes = append(w.events, custom), w.bytes+len(custom.Type)+len(custom.Data)
		return nil
	}
	_, err = fmt.Fprintf(w.next, "%s\n[not an event: %v]\n", bytes.TrimRight(line, "\n"), err)
	return err
}

func parseEvent(text []byte) (event.Custom, error) {
	var emitted struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := jsonv2.Unmarshal(text, &emitted); err != nil {
		return event.Custom{}, fmt.Errorf("the line must be %s{\"type\":…,\"data\":{…}}", eventPrefix)
	}
	return event.NewCustom(emitted.Type, emitted.Data)
}
