// Package wire is the codec of the LangGraph Agent Server: a log becomes the stream of a run in the modes that the client has
// chosen, and the events of a thread become its state. Messages have LangChain's format.
package wire

import (
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codec is the codec of a run's stream. The zero value streams the mode values.
type Codec struct {
	Modes Modes
	// Earlier returns the state of the thread before the run. It is called once, when the run begins: the runs before it have
	// ended then. nil = the thread is new.
	Earlier func() (Values, error)
}

var _ codec.Codec = Codec{}

// Encoder returns an encoder for server-sent events. The modes decide what is sent, so that Options.Include and Options.Accept
// are not used.
//
// An event of a log can become several events of the stream. The last of them has the cursor.
func (c Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	e := &encoder{from: o.From, cursor: o.Cursor, run: run{modes: c.Modes, earlier: c.Earlier}}
	if e.cursor == nil {
		e.cursor = codec.AppendCursor
	}
	if e.run.modes == (Modes{}) {
		e.run.modes.Values = true
	}
	return e, nil
}

type encoder struct {
	from   uint64
	cursor codec.CursorFunc
	run    run
}

// ContentType implements codec.Encoder.
func (*encoder) ContentType() string { return sse.ContentType }

// Start is 0: what an event becomes depends on the events before it.
func (*encoder) Start() uint64 { return 0 }

// Append implements codec.Encoder.
func (e *encoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		decoded, err := event.Decode(line.JSON)
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		e.run.muted = line.N < e.from
		parts, err := e.run.project(decoded)
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		for i, p := range parts {
			var at []byte
			if i == len(parts)-1 {
				at = e.cursor(nil, f.Incarnation, line.N)
			}
			if dst, err = sse.Append(dst, at, p.name, encode(p.data)); err != nil {
				return dst, fmt.Errorf("event %d: %w", line.N, err)
			}
		}
	}
	return dst, nil
}

// AppendControl implements codec.Encoder.
func (*encoder) AppendControl(dst []byte, n codec.Control) []byte { return appendControl(dst, n) }

// appendControl adds a comment, and the time to wait before the next connect.
func appendControl(dst []byte, n codec.Control) []byte {
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
var options = jsonv2.JoinOptions(jsontext.EscapeForJS(true), jsonv2.Deterministic(true))

// encode returns the JSON of a value of this package.
func encode(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, options)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
