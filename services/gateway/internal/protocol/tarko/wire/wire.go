// Package wire is the dialect of Tarko's server: a log told by [words.Projector] in the vocabulary and the framing that
// a route of that server has, and its errors in the shapes that its clients know.
//
// The framings are not a matter of taste (seeds S0, S4): the published frontend takes a block of server-sent events only
// if it begins with "data: ", and reads all that follows as JSON.
package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/eventstream"
	"github.com/agentbus/agentbus/pkg/sse"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Framing says how events follow one another on the wire.
type Framing int

// The framings. A client that accepts JSON lines gets them from each.
const (
	// Query is the stream of one query (S0, query/stream). In the flat vocabulary an event is a block of one line, its
	// data, and the cursor comes in a block of its own, which by the standard sets the last event's id and tells nothing.
	// In the nested vocabulary it is an ordinary block with id, event and data.
	Query Framing = iota
	// Session is the stream of all that happens in a session (S0, events/stream), for an EventSource with an onmessage:
	// blocks with id and data, without an event, since a named one would not reach it.
	Session
	// Lines is a JSON text a line.
	Lines
	// Messages is Lines for a WebSocket (S0, WebSocket Protocol), which sends each line as a message: of any session that
	// the client has joined. So the line has, beside the members of the event, the sessionId and, with the last event of
	// a cursor, the cursor.
	Messages
)

// ndjson is the media type of JSON lines.
const ndjson = "application/x-ndjson"

// Codec is Tarko's. The zero value speaks the flat vocabulary in the stream of a query.
type Codec struct {
	Vocabulary words.Vocabulary
	Framing    Framing
}

var _ codec.Codec = Codec{}

// Encoder returns an encoder. A client gets everything but what is internal, so Options.Include is not looked at.
//
// An event of a log can become several, all under one cursor, which comes with the last of them: who breaks off between
// them reads the first ones again, under the same ids.
//
// The encoder also writes a thread's requests one after the other: From is of the first of them.
func (d Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	e := &encoder{
		from: o.From, cursor: o.Cursor, threadID: o.ThreadID, framing: d.Framing, projector: words.NewProjector(d.Vocabulary),
		nested: d.Vocabulary == words.Nested, form: eventstream.Event.AppendFlat,
	}
	if e.nested {
		e.form = eventstream.Event.AppendNested
	}
	if e.cursor == nil {
		e.cursor = appendCursor
	}
	if strings.Contains(o.Accept, ndjson) && d.Framing != Messages {
		e.framing = Lines
	}
	return e, nil
}

// appendCursor is the place of an event in its own log.
func appendCursor(dst []byte, incarnation string, n uint64) []byte {
	return strconv.AppendUint(append(append(dst, incarnation...), '-'), n, 10)
}

type encoder struct {
	from      uint64
	next      uint64 // n that the log goes on with; a lower one begins another
	cursor    codec.CursorFunc
	threadID  string // "" = as the log says
	framing   Framing
	nested    bool
	projector *words.Projector
	form      func(eventstream.Event, []byte) ([]byte, error)

	id   []byte // of the event being written
	json []byte
}

func (e *encoder) lines() bool { return e.framing == Lines || e.framing == Messages }

func (e *encoder) ContentType() string {
	if e.lines() {
		return ndjson
	}
	return sse.ContentType
}

// Start is the beginning: what an event means depends on those before it.
func (*encoder) Start() uint64 { return 0 }

func (e *encoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		told, err := e.project(f.Incarnation, line)
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		if len(told) == 0 {
			continue
		}
		e.id = e.cursor(e.id[:0], f.Incarnation, line.N)
		if dst, err = e.write(dst, told); err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
	}
	return dst, nil
}

// project projects one event, and keeps what comes of it when the client has seen that before.
func (e *encoder) project(incarnation string, line event.Line) ([]eventstream.Event, error) {
	native, err := event.Decode(line.JSON)
	if err != nil {
		return nil, err
	}
	native.ID = event.NewCursor(incarnation, line.N)
	told, err := e.projector.Project(native)
	if line.N < e.next {
		e.from = 0
	}
	e.next = line.N + 1
	if line.N < e.from {
		return nil, err
	}
	return told, err
}

// write adds the events of one cursor.
func (e *encoder) write(dst []byte, told []eventstream.Event) ([]byte, error) {
	var err error
	for i, one := range told {
		last := i == len(told)-1
		if e.framing == Messages {
			err = e.encodeMessage(one, last)
		} else {
			e.json, err = e.form(one, e.json[:0])
		}
		if err != nil {
			return dst, err
		}
		if dst, err = e.frame(dst, one.Type, last); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// frame adds what e.json holds.
func (e *encoder) frame(dst []byte, kind string, last bool) ([]byte, error) {
	var id []byte
	if last {
		id = e.id
	}
	switch {
	case e.lines():
		return append(append(dst, e.json...), '\n'), nil
	case e.framing == Session:
		return sse.Append(dst, id, "", e.json)
	case e.nested:
		return sse.Append(dst, id, kind, e.json)
	}
	dst, err := sse.Append(dst, "", "", e.json)
	if err != nil || !last {
		return dst, err
	}
	return sse.AppendID(dst, id)
}

// AppendControl adds blocks of their own, which every client of Tarko leaves alone. JSON lines have no place for it.
func (e *encoder) AppendControl(dst []byte, n codec.Control) []byte {
	if e.lines() {
		return dst
	}
	if n.Comment != "" {
		if noted, err := sse.AppendComment(dst, n.Comment); err == nil { // a comment that is no line is left out
			dst = noted
		}
	}
	if n.Retry > 0 {
		dst = sse.AppendRetry(dst, n.Retry)
	}
	return dst
}
