// Package wire is the codec of the AI SDK's UI message stream (version 1 of the stream, version 7 of the package ai): the log
// of a request, or of several that continue each other, becomes one message of the assistant, as server-sent events. Its rules
// are those that the published client enforces: a start precedes each delta and end, the result of a call follows the call in
// the same message, an optional member is absent instead of null, and the stream ends with [DONE].
package wire

import (
	"fmt"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The header by which clients recognise the stream.
const (
	VersionHeader = "X-Vercel-Ai-Ui-Message-Stream"
	Version       = "v1"
)

// Codec is the codec of a stream. The zero value encodes a log as a new message.
type Codec struct {
	// ClientTools are the names of the tools that clients run, in addition to those that the request declares. Their calls are
	// parts of the type tool-NAME; the calls of other tools are parts of the type dynamic-tool.
	ClientTools []string

	// Continued is the message that the client has and the log continues. The zero value = the log begins a message.
	Continued Continued

	// Last is the last request of the message, of several whose logs are encoded one after the other: only its end is the end
	// of the stream. "" = the message has one log.
	Last string
}

// Continued is a message of the assistant that a client has.
type Continued struct {
	ID    string
	Calls []KnownCall
}

// KnownCall is a tool call of a message.
type KnownCall struct {
	ID         string
	Dynamic    bool   // the type of its part is dynamic-tool
	ApprovalID string // of its approval; "" = none
	Answered   bool   // the client has its output
}

var _ codec.Codec = Codec{}

// Encoder returns an encoder for server-sent events. The stream shows everything except internal events, so that
// Options.Include and Options.Accept are not used; it has the output of tools if Options.ToolOutput is set. The events have no
// ids: a client reads a message from its beginning.
func (c Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	return &encoder{from: o.From, output: o.ToolOutput, message: newMessage(c)}, nil
}

type encoder struct {
	from    uint64
	output  func() bool // nil = without the output of tools
	message *message
	json    []byte
}

// ContentType implements codec.Encoder.
func (*encoder) ContentType() string { return sse.ContentType }

// Start is 0: what an event becomes depends on the events before it.
func (*encoder) Start() uint64 { return 0 }

// Append implements codec.Encoder.
func (e *encoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		if !e.includes(line) {
			continue
		}
		decoded, err := event.Decode(line.JSON)
		if err == nil {
			dst, err = e.add(dst, line.N, decoded)
		}
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
	}
	return dst, nil
}

// includes reports whether an event belongs to the stream.
func (e *encoder) includes(line event.Line) bool {
	if e.output != nil && e.output() && line.HasToolOutput() {
		return true
	}
	return !line.Name.IsInternal() && !line.HasToolOutput()
}

// add appends what one event becomes, and the end of the stream after the last one.
func (e *encoder) add(dst []byte, n uint64, decoded event.Event) ([]byte, error) {
	chunks := e.message.project(decoded)
	if n < e.from {
		return dst, nil
	}
	var err error
	for _, one := range chunks {
		if e.json, err = json.Marshal(one, options); err != nil {
			return dst, err
		}
		if dst, err = sse.Append(dst, "", "", e.json); err != nil {
			return dst, err
		}
	}
	if event.IsTerminal(decoded.Body) && e.message.isLast(decoded.RequestID) {
		dst, err = sse.Append(dst, "", "", []byte("[DONE]"))
	}
	return dst, err
}

// AppendControl adds a comment, and the time to wait before the next connect, which the client ignores.
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

// options make the JSON of a chunk the same each time, and safe in one line.
var options = json.JoinOptions(jsontext.EscapeForJS(true), json.Deterministic(true))

// EncodeError is a text: the published client shows the whole body of a response that is not a success.
func (Codec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	text := f.Message
	if text == "" {
		text = string(f.Code)
	}
	return "text/plain; charset=utf-8", []byte(text)
}
