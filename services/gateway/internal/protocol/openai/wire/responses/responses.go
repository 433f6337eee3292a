// Package responses is the codec of OpenAI's Responses: a request of an agent is a response, whose output has an item for each text,
// each reasoning and each call. Calls that the client runs are function calls; calls that the agent's own tools run are calls of
// an MCP server, as are the approvals that they need.
package responses

import (
	"cmp"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
)

// Codec is the codec of a stream.
type Codec struct {
	From int // the sequence number of the first event to write; those before it are the same in each stream of the response
}

var _ codec.Codec = Codec{}

// Decode implements codec.Codec. The messages of a conversation are in [Input.Request] alone.
func (Codec) Decode(body []byte) (event.AgentRequest, error) {
	in, err := DecodeInput(body)
	if err != nil {
		return event.AgentRequest{}, err
	}
	r, err := in.Request(time.Time{})
	return r.Request, err
}

// EncodeError implements codec.Codec.
func (Codec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	return wire.EncodeError(f)
}

// Encoder returns an encoder for server-sent events. Options.Include, Options.Accept and Options.Cursor are not used: the API has
// one format, and the position of an event is its sequence number.
func (c Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	return &encoder{from: o.From, first: c.From, run: newRun(maxStreamed)}, nil
}

type encoder struct {
	from  uint64
	first int
	run   *run
}

// ContentType implements codec.Encoder.
func (*encoder) ContentType() string { return sse.ContentType }

// Start is 0: what an event becomes depends on the events before it.
func (*encoder) Start() uint64 { return 0 }

// Append implements codec.Encoder.
func (e *encoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		events, err := e.run.add(line)
		if err != nil {
			return dst, err
		}
		for _, one := range events {
			if line.N < e.from || one.Sequence < e.first {
				continue
			}
			if dst, err = sse.Append(dst, "", one.Type, wire.Encode(one)); err != nil {
				return dst, fmt.Errorf("event %d: %w", line.N, err)
			}
		}
	}
	return dst, nil
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

// Log makes a response of a log, as far as it was added.
type Log struct{ run *run }

// NewLog returns an empty log.
func NewLog() *Log { return &Log{newRun(maxReplied)} }

// Add adds the next frame.
func (l *Log) Add(f event.Frame) error {
	for line := range f.Each() {
		if _, err := l.run.add(line); err != nil {
			return err
		}
		if l.run.truncated {
			return apierr.New(apierr.MessageTooLarge, "the response is too large for one value: read its stream")
		}
	}
	return nil
}

// Response returns the response, with the items that are open. It has no id if no event has begun it.
func (l *Log) Response() Response { return l.run.snapshot() }

// Queued returns the response of a request that no runner has started.
func Queued(requestID string, at time.Time, in event.Input) Response {
	r := newResponse()
	r.ID, r.Status = ID(requestID), statusQueued
	r.describe(in)
	r.CreatedAt = cmp.Or(r.CreatedAt, seconds(at))
	return r
}
