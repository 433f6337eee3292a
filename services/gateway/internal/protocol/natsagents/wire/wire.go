// Package wire is the codec of the Synadia Agent Protocol 0.3: prompts, and the chunks of their responses.
package wire

import (
	"bytes"
	"fmt"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
)

// Codec encodes events as chunks, one on each line. The zero value is ready to use.
type Codec struct{}

var _ codec.Codec = Codec{}

// Decode decodes an envelope.
func (Codec) Decode(body []byte) (event.AgentRequest, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return event.AgentRequest{}, invalid(`send an envelope such as {"prompt":"hi"}`)
	}
	p, err := DecodePrompt(body)
	if err != nil {
		return event.AgentRequest{}, err
	}
	return p.Request()
}

// Encoder implements codec.Codec.
func (Codec) Encoder(o codec.Options) (codec.Encoder, error) { return &chunks{from: o.From}, nil }

// failure is the body of an error.
type failure struct {
	Code      apierr.Code `json:"code"`
	Message   string      `json:"message"`
	Retryable bool        `json:"retryable"`
	RequestID string      `json:"requestId,omitempty"`
	ThreadID  string      `json:"session,omitempty"`
}

// EncodeError encodes the body that accompanies the headers of an error.
func (Codec) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	body, err := json.Marshal(failure{e.Code, e.Message, e.Retryable, e.RequestID, e.ThreadID})
	if err != nil {
		body = []byte(`{"code":"internal_error","message":"an internal error occurred","retryable":true}`)
	}
	return "application/json", body
}

// Status returns the code of an error in the headers of the protocol.
func Status(code apierr.Code) int {
	switch code {
	case apierr.InvalidMessageFormat, apierr.MessageTooLarge:
		return 400
	case apierr.AuthFailed:
		return 401
	case apierr.ThreadAccessDenied:
		return 403
	case apierr.AgentNotFound, apierr.ThreadNotFound, apierr.RequestNotFound, apierr.ObjectNotFound:
		return 404
	case apierr.ThreadBusy, apierr.RequestFinished, apierr.InvalidActionID, apierr.IdempotencyMismatch:
		return 409
	case apierr.RateLimitExceeded:
		return 429
	default:
		return 500
	}
}

// chunk is a part of a response.
type chunk struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

// Ack is the chunk that begins a response, and keeps it alive.
func Ack() []byte { return []byte(`{"type":"status","data":"ack"}`) }

// accepted identifies a request, for clients that read it by other protocols too. Those of this protocol drop chunks of types
// that they do not have.
type accepted struct {
	RequestID string `json:"requestId"`
	Session   string `json:"session"`
}

// Accepted returns the chunk that identifies a request and its thread.
func Accepted(requestID, threadID string) ([]byte, error) {
	return json.Marshal(chunk{"agentbus", accepted{requestID, threadID}})
}

// query is a question to the client.
type query struct {
	ID      string `json:"id"`
	ReplyTo string `json:"reply_subject"`
	Prompt  string `json:"prompt"`
}

// Query returns the chunk that asks the client for the answer to an action.
func Query(action event.Continuation, replyTo string) ([]byte, error) {
	return json.Marshal(chunk{"query", query{action.ActionID, replyTo, question(action)}})
}

func question(action event.Continuation) string {
	if action.Kind == event.ContinueInput {
		return action.Payload.Question
	}
	text := fmt.Sprintf("Allow %s %s? Answer yes or no.", action.Payload.Tool, action.Payload.Args)
	if action.Payload.Question != "" {
		text = action.Payload.Question + "\n" + text
	}
	return text
}

// chunks writes the text of a log.
type chunks struct{ from uint64 }

func (*chunks) ContentType() string                              { return "application/x-ndjson" }
func (c *chunks) Start() uint64                                  { return c.from }
func (*chunks) AppendControl(dst []byte, _ codec.Control) []byte { return dst }

func (c *chunks) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		if line.N < c.from || line.Name != event.NameText && line.Name != event.NameFinalAnswer {
			continue
		}
		e, err := event.Decode(line.JSON)
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		text, ok := chunkOf(e.Body)
		if !ok {
			continue
		}
		body, err := json.Marshal(text)
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		dst = append(append(dst, body...), '\n')
	}
	return dst, nil
}

// chunkOf returns the chunk for a delta, or for the end of a block that does not count.
func chunkOf(body event.Body) (chunk, bool) {
	var block event.Block
	var delta string
	switch b := body.(type) {
	case event.Text:
		block, delta = b.Block, b.Delta
	case event.FinalAnswer:
		block, delta = b.Block, b.Delta
	}
	switch {
	case block.Stage == event.StageDelta && delta != "":
		return chunk{"response", delta}, true
	case block.Stage == event.StageStop && block.Discarded:
		return chunk{"status", "discarded"}, true
	}
	return chunk{}, false
}
