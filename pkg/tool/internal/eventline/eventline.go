// Package eventline finds the events in what a tool prints: lines that begin with "::event ".
package eventline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Prefix begins a line of output that is an event: ::event {"type":"progress","data":{"percent":40}}.
const Prefix = "::event "

// maxEventLine bounds a line that is kept until its end is read.
const maxEventLine = event.MaxCustomBytes + 1<<10

// Writer passes output on without the lines that are events, which it collects. It is for one writer at a time.
type Writer struct {
	Next   io.Writer
	Emit   func(event.Custom)       // is called with each event; nil = not
	Clean  func(line []byte) []byte // removes secrets from an event; nil = not needed
	Events []event.Custom

	bytes int    // of the types and data of the events
	line  []byte // the beginning of a line that may be an event
	plain bool   // the rest of the line is not an event
}

// Write never fails, if Next does not.
func (w *Writer) Write(piece []byte) (int, error) {
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
func (w *Writer) add(part []byte, ended bool) error {
	if !w.plain {
		w.line = append(w.line, part...)
		shown := min(len(w.line), len(Prefix))
		w.plain = string(w.line[:shown]) != Prefix[:shown] || len(w.line) > maxEventLine
		part = nil
		if w.plain {
			part, w.line = w.line, nil
		}
	}
	if w.plain {
		w.plain = !ended
		_, err := w.Next.Write(part)
		return err
	}
	if ended {
		return w.Flush()
	}
	return nil
}

// Flush ends a line. One that cannot be an event is passed on, with the reason.
func (w *Writer) Flush() error {
	line := w.line
	w.line, w.plain = nil, false
	text, found := bytes.CutPrefix(line, []byte(Prefix))
	if !found {
		_, err := w.Next.Write(line)
		return err
	}
	if w.Clean != nil {
		_ = (*jsontext.Value)(&text).Format() // JSON may have escaped a secret; what is not JSON is refused below
		text = w.Clean(text)
	}
	custom, err := Parse(text)
	if size := len(custom.Type) + len(custom.Data); err == nil && w.bytes+size > tool.MaxEventBytes {
		err = fmt.Errorf("the events of a call have at most %d bytes", tool.MaxEventBytes)
	}
	if err == nil {
		w.Events, w.bytes = append(w.Events, custom), w.bytes+len(custom.Type)+len(custom.Data)
		if w.Emit != nil {
			w.Emit(custom)
		}
		return nil
	}
	_, err = fmt.Fprintf(w.Next, "%s\n[not an event: %v]\n", bytes.TrimRight(line, "\n"), err)
	return err
}

// Parse returns the event of what follows [Prefix].
func Parse(text []byte) (event.Custom, error) {
	var emitted struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := jsonv2.Unmarshal(text, &emitted); err != nil {
		return event.Custom{}, fmt.Errorf("the line must be %s{\"type\":…,\"data\":{…}}", Prefix)
	}
	return event.NewCustom(emitted.Type, emitted.Data)
}
