// Package wire is the codec of Durable Streams: the events of a log as the messages of a JSON stream, in an array or as
// server-sent events.
package wire

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
)

// JSON is the content type of every stream.
const JSON = "application/json"

// Codec encodes events. The zero value writes the stream of a request. Its functions must be safe for concurrent use if the
// codec is.
type Codec struct {
	Thread   bool                   // the stream is that of a thread, which no event closes
	Cursor   func() string          // of the control events; nil = they have none
	UpToDate func(next uint64) bool // reports whether the client has all events if it has those before next; nil = no
}

var _ codec.Codec = Codec{}

// Decode refuses every body: the streams are read only.
func (Codec) Decode([]byte) (event.AgentRequest, error) {
	return event.AgentRequest{}, apierr.New(apierr.InvalidMessageFormat, "the stream is read only; POST /v1/agents/{agentName}/stream begins a request")
}

// Encoder returns an encoder of server-sent events where the client accepts them, and otherwise one of messages, of which
// [Array] makes a body. Options.Cursor appends the offset after an event; without it that is the offset of a request's stream.
func (c Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	wanted, err := codec.NewFilter(o)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(o.Accept, sse.ContentType) {
		return &messages{from: o.From, wanted: wanted}, nil
	}
	if o.Cursor == nil {
		o.Cursor = appendOffset
	}
	return &events{codec: c, from: o.From, wanted: wanted, offset: o.Cursor}, nil
}

func appendOffset(dst []byte, incarnation string, n uint64) []byte {
	return Offset{Incarnation: incarnation, N: n + 1}.Append(dst)
}

// failure is the body of an error. The protocol leaves its form to the server.
type failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// EncodeError encodes an error as a JSON object.
func (Codec) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return JSON, encodeFailure(failure{string(e.Code), e.Message, e.Retryable})
}

// EncodeGone encodes the error for an offset that the stream no longer has.
func EncodeGone() (contentType string, body []byte) {
	return JSON, encodeFailure(failure{"offset_gone", "the stream has no such position any more; read it from offset=-1", false})
}

func encodeFailure(f failure) []byte {
	body, err := json.Marshal(f)
	if err != nil {
		body = []byte(`{"code":"internal_error","message":"an internal error occurred","retryable":true}`)
	}
	return append(body, '\n')
}

// messages writes each event with a comma and a line break behind it.
type messages struct {
	from   uint64
	wanted codec.Filter
}

func (*messages) ContentType() string                              { return JSON }
func (m *messages) Start() uint64                                  { return m.from }
func (*messages) AppendControl(dst []byte, _ codec.Control) []byte { return dst }
func (m *messages) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		if line.N >= m.from && m.wanted.Includes(line) {
			dst = append(append(dst, line.JSON...), ",\n"...)
		}
	}
	return dst, nil
}

// Array makes the body of a response of what the encoder of messages has written.
func Array(messages []byte) []byte {
	return append(append([]byte{'['}, bytes.TrimSuffix(messages, []byte(",\n"))...), ']')
}

// control is the data of a control event.
type control struct {
	NextOffset string `json:"streamNextOffset"`
	Cursor     string `json:"streamCursor,omitempty"`
	UpToDate   bool   `json:"upToDate,omitzero"`
	Closed     bool   `json:"streamClosed,omitzero"`
}

// AppendControl appends a control event for a position in the stream.
func (c Codec) AppendControl(dst []byte, offset string, upToDate, closed bool) ([]byte, error) {
	body := control{NextOffset: offset, UpToDate: upToDate, Closed: closed}
	if c.Cursor != nil && !closed {
		body.Cursor = c.Cursor()
	}
	text, err := json.Marshal(body)
	if err != nil {
		return dst, err
	}
	return appendEvent(dst, "control", text), nil
}

// appendEvent appends an event whose data is JSON on one line, in the form that clients of the protocol compare: without a space
// before the data.
func appendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\ndata:"...)
	return append(append(dst, data...), "\n\n"...)
}

// events writes each event as an event "data" and an event "control".
type events struct {
	codec  Codec
	from   uint64
	wanted codec.Filter
	offset codec.CursorFunc
	data   []byte // of the event being written
	at     []byte // its offset
}

func (*events) ContentType() string { return sse.ContentType }
func (e *events) Start() uint64     { return e.from }

func (e *events) Append(dst []byte, f event.Frame) ([]byte, error) {
	if f.Next() <= e.from {
		return dst, nil
	}
	current := e.codec.UpToDate != nil && e.codec.UpToDate(f.Next())
	var err error
	for line := range f.Each() {
		if line.N < e.from || !e.wanted.Includes(line) {
			continue
		}
		e.data = append(append(append(e.data[:0], '['), line.JSON...), ']')
		dst = appendEvent(dst, "data", e.data)
		closed, last := line.Name.IsTerminal() && !e.codec.Thread, line.N+1 == f.Next()
		if dst, err = e.control(dst, f.Incarnation, line.N, closed || last && current, closed); err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		current = current && !last
	}
	if current { // the last events are not for this client
		return e.control(dst, f.Incarnation, f.Next()-1, true, false)
	}
	return dst, nil
}

func (e *events) control(dst []byte, incarnation string, n uint64, upToDate, closed bool) ([]byte, error) {
	e.at = e.offset(e.at[:0], incarnation, n)
	return e.codec.AppendControl(dst, string(e.at), upToDate, closed)
}

// AppendControl appends a comment for the connection. Clients of the protocol choose their own delays.
func (*events) AppendControl(dst []byte, n codec.Control) []byte {
	if n.Comment == "" {
		return dst
	}
	appended, err := sse.AppendComment(dst, n.Comment)
	if err != nil { // a comment that cannot be encoded is omitted
		return dst
	}
	return appended
}
