// Package wire is the codec of A2A 1.0, for both of its JSON bindings: a log becomes the updates of one task, as server-sent
// events. Read fold.go for what an event becomes.
package wire

import (
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
)

// Codec is the codec of a stream. The zero value encodes the log of a task's first request for the HTTP+JSON binding.
type Codec struct {
	// Call is the id of the call of JSON-RPC that the stream answers; nil = the HTTP+JSON binding.
	Call json.RawMessage
	// Task is the state before the first frame, for a stream that continues. The encoder owns it. Without Begun the stream begins
	// with the task.
	Task  *Fold
	Begun bool
}

var _ codec.Codec = Codec{}

// Decode implements codec.Codec: it decodes the parameters of SendMessage.
func (Codec) Decode(body []byte) (event.AgentRequest, error) {
	in, err := DecodeSend(body)
	if err != nil {
		return event.AgentRequest{}, err
	}
	return in.Request(nil)
}

// EncodeError implements codec.Codec.
func (Codec) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return EncodeError(e)
}

// Encoder returns an encoder for server-sent events. Options.Include and Options.Accept are not used: the protocol has one format.
// With Task, it must be given the frames that follow the state, which may be of several requests.
func (c Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	e := &encoder{call: c.Call, from: o.From, task: c.Task, begun: c.Begun}
	if e.task == nil {
		e.task = NewFold("", "")
	} else {
		e.continues = true
	}
	if e.begun {
		e.task.Forget()
	}
	return e, nil
}

type encoder struct {
	call      json.RawMessage
	from      uint64
	continues bool // all frames follow the state of the task
	task      *Fold
	begun     bool // the task was written
}

// ContentType implements codec.Encoder.
func (*encoder) ContentType() string { return sse.ContentType }

// Start is 0, since what an event becomes depends on the events before it, unless the encoder has the state.
func (e *encoder) Start() uint64 {
	if e.continues {
		return e.from
	}
	return 0
}

// Append implements codec.Encoder.
func (e *encoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		decoded, err := event.Decode(line.JSON)
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		updates := e.project(decoded)
		if !e.continues && line.N < e.from {
			continue
		}
		for _, u := range updates {
			if dst, err = AppendUpdate(dst, e.call, u); err != nil {
				return dst, fmt.Errorf("event %d: %w", line.N, err)
			}
		}
	}
	return dst, nil
}

// project returns the updates of an event. The first one is the task, after the message that began or continued it.
func (e *encoder) project(decoded event.Event) []Update {
	if e.begun || decoded.Body.Name().IsInternal() {
		return e.task.Add(decoded)
	}
	var first, rest []Update
	if _, opening := decoded.Body.(event.Input); opening {
		rest = e.task.Add(decoded)
		first = []Update{e.snapshot()}
	} else {
		e.task.identify(decoded)
		first = []Update{e.snapshot()}
		rest = e.task.Add(decoded)
	}
	return append(first, rest...)
}

// snapshot returns the task, once.
func (e *encoder) snapshot() Update {
	t := e.task.Task()
	e.task.Forget()
	e.begun = true
	return Update{Task: &t}
}

// AppendControl adds a comment.
func (*encoder) AppendControl(dst []byte, n codec.Control) []byte {
	if n.Comment != "" {
		if noted, err := sse.AppendComment(dst, n.Comment); err == nil { // a comment with a line break is left out
			dst = noted
		}
	}
	return dst
}

// AppendUpdate appends an event of a stream.
func AppendUpdate(dst []byte, call json.RawMessage, u Update) ([]byte, error) {
	var value any = u
	if call != nil {
		value = Result(call, u)
	}
	text, err := jsonv2.Marshal(value, options)
	if err != nil {
		return dst, err
	}
	return sse.Append(dst, "", "", text)
}

// Result returns the response of a call of JSON-RPC.
func Result(call json.RawMessage, value any) any {
	return struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", call, value}
}
