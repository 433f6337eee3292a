// Package wire is the codec of the native protocol: the events of the log as server-sent events or as JSON lines. It copies
// their bytes without decoding them.
package wire

import (
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// NDJSON is the media type of JSON lines.
const NDJSON = "application/x-ndjson"

// ToolOutput includes the output of tools: the deltas of tool_result, and tool_output.
const ToolOutput = codec.ToolOutput

// Codec is the native codec. The zero value is ready to use.
type Codec struct{}

var _ codec.Codec = Codec{}

// Encoder returns an encoder for JSON lines where the client accepts them, and for server-sent events otherwise.
func (Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	wanted, err := codec.NewFilter(o)
	if err != nil {
		return nil, err
	}
	if o.Cursor == nil {
		o.Cursor = codec.AppendCursor
	}
	if acceptsNDJSON(o.Accept) {
		return &lineEncoder{from: o.From, wanted: wanted}, nil
	}
	return &sseEncoder{from: o.From, wanted: wanted, cursor: o.Cursor}, nil
}

// EncodeError encodes the error event as JSON.
func (Codec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	body, err := event.Encode(event.Event{RequestID: f.RequestID, Time: f.At, Body: event.Error{
		ThreadID: f.ThreadID, Code: f.Code, Message: f.Message, Retryable: f.Retryable, RunningRequestID: f.Error.RequestID,
	}})
	if err != nil {
		body = []byte(`{"event":"error","requestId":"","code":"internal_error","message":"an internal error occurred","retryable":true}`)
	}
	return "application/json", append(body, '\n')
}

func acceptsNDJSON(accept string) bool {
	for _, kind := range []string{NDJSON, "application/ndjson", "application/jsonl"} {
		if strings.Contains(accept, kind) {
			return true
		}
	}
	return false
}

// sseEncoder writes server-sent events: the id, the event's name, the event.
type sseEncoder struct {
	from   uint64
	wanted codec.Filter
	cursor codec.CursorFunc
	id     []byte // of the event being written
}

func (*sseEncoder) ContentType() string { return sse.ContentType }
func (s *sseEncoder) Start() uint64     { return s.from }

func (s *sseEncoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	var err error
	for line := range f.Each() {
		if line.N < s.from || !s.wanted.Includes(line) {
			continue
		}
		s.id = s.cursor(s.id[:0], f.Incarnation, line.N)
		if dst, err = sse.Append(dst, s.id, string(line.Name), line.JSON); err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
	}
	return dst, nil
}

func (*sseEncoder) AppendControl(dst []byte, n codec.Control) []byte {
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

// lineEncoder writes one event per line.
type lineEncoder struct {
	from   uint64
	wanted codec.Filter
}

func (*lineEncoder) ContentType() string { return NDJSON }
func (l *lineEncoder) Start() uint64     { return l.from }

func (l *lineEncoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		if line.N >= l.from && l.wanted.Includes(line) {
			dst = append(append(dst, line.JSON...), '\n')
		}
	}
	return dst, nil
}

// AppendControl appends an empty line for a comment, which readers of JSON lines skip.
func (*lineEncoder) AppendControl(dst []byte, n codec.Control) []byte {
	if n.Comment == "" {
		return dst
	}
	return append(dst, '\n')
}
