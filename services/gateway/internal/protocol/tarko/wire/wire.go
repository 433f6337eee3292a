// Package wire is the codec of Tarko's server: a log as projected by [words.Projector], in the vocabulary and framing
// of the route, and errors in the forms that Tarko's clients read.
//
// The framing matters: Tarko's published frontend accepts a block of server-sent events only if it starts with "data:
// ", and parses the rest of the block as JSON.
package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Framing is the separation of events on the wire.
type Framing int

// The framings. A client that accepts JSON lines gets them in place of Query and Session.
const (
	// Query is the stream of one query (query/stream). In the flat vocabulary an event is a block with one data line.
	// The cursor is in a separate block, which sets the id of the last event and, by the standard, dispatches no event.
	// In the nested vocabulary an event is a block with id, event and data.
	Query Framing = iota
	// Session is the stream of all events of a session (events/stream), for the onmessage handler of an EventSource:
	// blocks with id and data, and without an event name, since named events do not reach that handler.
	Session
	// Lines is one JSON text per line.
	Lines
	// Messages is Lines for a WebSocket, which sends each line as a message, for any session that the client has
	// joined. Therefore the line has two additional fields: the sessionId and, with the last event of a cursor, the
	// cursor.
	Messages
)

// ndjson is the media type of JSON lines.
const ndjson = "application/x-ndjson"

// Codec is the codec of Tarko's protocol. Its zero value encodes the stream of a query in the flat vocabulary.
type Codec struct {
	Vocabulary words.Vocabulary
	Framing    Framing
	Keep       func(eventstream.Event) bool // selects the events that are written; nil = all
}

var _ codec.Codec = Codec{}

// Encoder returns an encoder. Clients get all events that are not internal; Options.Include has no effect.
//
// An event of a log can become several events with one cursor, which is sent with the last of them. A client that
// disconnects between them receives the first ones again, with the same ids.
//
// The encoder can also write the requests of a thread one after the other: From then concerns the first of them.
func (d Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	e := &encoder{
		from: o.From, cursor: o.Cursor, threadID: o.ThreadID, framing: d.Framing, projector: words.NewProjector(d.Vocabulary),
		nested: d.Vocabulary == words.Nested, form: eventstream.Event.AppendFlat, keep: d.Keep,
	}
	if e.nested {
		e.form = eventstream.Event.AppendNested
	}
	if e.cursor == nil {
		e.cursor = codec.AppendCursor
	}
	if strings.Contains(o.Accept, ndjson) && d.Framing != Messages {
		e.framing = Lines
	}
	return e, nil
}

type encoder struct {
	from      uint64
	next      uint64 // next n of the log; a lower one starts another log
	cursor    codec.CursorFunc
	threadID  string // "" = the thread of the log
	framing   Framing
	nested    bool
	projector *words.Projector
	form      func(eventstream.Event, []byte) ([]byte, error)
	keep      func(eventstream.Event) bool // nil = all

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

// Start returns 0: the projection of an event depends on those before it.
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

// project projects one event, and drops the result if the client has received it already.
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
	if e.keep != nil {
		told = slices.DeleteFunc(told, func(one eventstream.Event) bool { return !e.keep(one) })
	}
	return told, err
}

// write appends the events of one cursor.
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

// frame appends e.json.
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

// AppendControl appends blocks that Tarko's clients ignore. JSON lines have no control messages.
func (e *encoder) AppendControl(dst []byte, n codec.Control) []byte {
	if e.lines() {
		return dst
	}
	if n.Comment != "" {
		if appended, err := sse.AppendComment(dst, n.Comment); err == nil { // a comment that cannot be encoded is omitted
			dst = appended
		}
	}
	if n.Retry > 0 {
		dst = sse.AppendRetry(dst, n.Retry)
	}
	return dst
}
