// Package wire is the codec of AG-UI 1.0: a log becomes the events of one run, as server-sent events. Its rules are those that
// the published client enforces: RUN_STARTED is the first event, each start has an end before RUN_FINISHED, and an optional
// member is absent instead of null.
package wire

import (
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ProtocolVersion is the version of AG-UI.
const ProtocolVersion = "1.0"

// Codec is the codec of a stream. The zero value encodes a run from its first event.
type Codec struct {
	// Attach encodes for a client that attaches to a run: the response begins with RUN_STARTED, a snapshot of the messages
	// before Options.From, and the starts of what is open there. nil = the client reads the run from its first event.
	Attach *Attach
}

// Attach is what a client that attaches to a run gets in addition to the run.
type Attach struct {
	Messages []Message // of the thread before the run
}

var _ codec.Codec = Codec{}

// Encoder returns an encoder for server-sent events. AG-UI shows everything except internal events and, unless
// Options.ToolOutput allows it, what tools print. Options.Include and Options.Accept are not used.
//
// An event of a log can become several events of AG-UI. The last of them has the cursor.
func (c Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	e := &encoder{from: o.From, cursor: o.Cursor, run: newRun(), attaches: c.Attach != nil}
	e.run.toolOutput = o.ToolOutput
	if c.Attach != nil {
		e.attached = newConversation(c.Attach.Messages)
	}
	if e.cursor == nil {
		e.cursor = codec.AppendCursor
	}
	return e, nil
}

type encoder struct {
	from     uint64
	cursor   codec.CursorFunc
	run      *run
	attaches bool          // the client does not have the messages that started the run
	attached *conversation // until the snapshot is written; nil = the client reads from the first event
	id       []byte        // of the event being written
	json     []byte
}

// ContentType implements codec.Encoder.
func (*encoder) ContentType() string { return sse.ContentType }

// Start is 0: what an event becomes depends on the events before it.
func (*encoder) Start() uint64 { return 0 }

// Append implements codec.Encoder.
func (e *encoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		decoded, err := event.Decode(line.JSON)
		if err == nil {
			e.id = e.cursor(e.id[:0], f.Incarnation, line.N)
			dst, err = e.add(dst, line.N, decoded)
		}
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
	}
	return dst, nil
}

// add appends what one event becomes. A client that attaches gets the snapshot after the last event before From, or after
// RUN_STARTED if the run begins there.
func (e *encoder) add(dst []byte, n uint64, decoded event.Event) ([]byte, error) {
	events := e.run.project(decoded)
	switch {
	case n < e.from && e.attached != nil:
		for _, one := range events {
			e.attached.apply(one)
		}
		if n+1 == e.from && e.run.begun {
			return e.write(dst, append([]Event{e.run.started(), e.snapshot()}, e.run.reopen()...), e.id)
		}
		return dst, nil
	case n < e.from || len(events) == 0:
		return dst, nil
	case e.attached != nil:
		events = slices.Insert(events, 1, e.snapshot())
	}
	return e.write(dst, events, e.id)
}

// snapshot returns the messages before From, once.
func (e *encoder) snapshot() Event {
	messages := e.attached.snapshot()
	e.attached = nil
	return Event{Type: MessagesSnapshot, Messages: messages}
}

// write appends events, of which the last one has the cursor.
func (e *encoder) write(dst []byte, events []Event, id []byte) ([]byte, error) {
	events = e.visible(events)
	var err error
	for i, one := range events {
		if e.json, err = json.Marshal(one, options); err != nil {
			return dst, err
		}
		var at []byte
		if i == len(events)-1 {
			at = id
		}
		if dst, err = sse.Append(dst, at, "", e.json); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// visible removes what the client of the run has sent, or replaces it by events of AG-UI for other clients.
func (e *encoder) visible(events []Event) []Event {
	var shown []Event
	for _, one := range events {
		switch {
		case one.Type == oldMessage, one.own && !e.attaches:
		case one.Type != userMessage:
			shown = append(shown, one)
		case e.attaches:
			shown = append(shown, userText(one)...)
		}
	}
	return shown
}

// AppendControl adds a comment, and the time to wait before the next connect, which AG-UI clients ignore.
func (*encoder) AppendControl(dst []byte, n codec.Control) []byte {
	if n.Comment != "" {
		if noted, err := sse.AppendComment(dst, n.Comment); err == nil { // a comment with a line break is left out
			dst = noted
		}
	}
	if n.Retry > 0 {
		dst = sse.AppendRetry(dst, n.Retry)
	}
	return dst
}

// options make the JSON of an event the same each time, and safe in one line.
var options = json.JoinOptions(jsontext.EscapeForJS(true), json.Deterministic(true))
