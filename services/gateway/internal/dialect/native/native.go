// Package native is the dialect of the agent event protocol (S2): the events as they stand in the log, as server-sent
// events or as JSON lines. It passes the bytes through without decoding them.
package native

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
)

// NDJSON is the media type of JSON lines.
const NDJSON = "application/x-ndjson"

// extended is the word for every event that is not native.
const extended = "extended"

// Dialect is the native dialect. The zero value is ready.
type Dialect struct{}

var _ dialect.Dialect = Dialect{}

// Encoder returns an encoder for JSON lines where the client accepts them, and for server-sent events otherwise.
func (Dialect) Encoder(o dialect.Options) (dialect.Encoder, error) {
	wanted, err := filter(o.Include)
	if err != nil {
		return nil, err
	}
	if o.Place == nil {
		o.Place = cursor
	}
	if wantsLines(o.Accept) {
		return &lines{from: o.From, wanted: wanted}, nil
	}
	return &stream{from: o.From, wanted: wanted, place: o.Place}, nil
}

// Failure is the error event as JSON.
func (Dialect) Failure(f dialect.Failure) (contentType string, body []byte) {
	body, err := event.Encode(event.Event{RequestID: f.RequestID, Time: f.At, Body: event.Error{
		ThreadID: f.ThreadID, Code: f.Code, Message: f.Message, Retryable: f.Retryable, RunningRequestID: f.Error.RequestID,
	}})
	if err != nil {
		body = []byte(`{"event":"error","requestId":"","code":"internal_error","message":"an internal error occurred","retryable":true}`)
	}
	return "application/json", append(body, '\n')
}

func wantsLines(accept string) bool {
	for _, kind := range []string{NDJSON, "application/ndjson", "application/jsonl"} {
		if strings.Contains(accept, kind) {
			return true
		}
	}
	return false
}

// wanted says which events a client gets beside the native ones.
type wanted struct {
	all   bool
	names []event.Name
}

func filter(include []string) (wanted, error) {
	var w wanted
	for _, word := range include {
		name := event.Name(word)
		switch {
		case word == extended:
			w.all = true
		case slices.Contains(event.Names(), name) && !name.IsInternal():
			w.names = append(w.names, name)
		default:
			return w, apierr.New(apierr.InvalidMessageFormat, "include=%.40s: use %q, or names of %v", word, extended, choices())
		}
	}
	return w, nil
}

// choices lists what include may name.
func choices() []event.Name {
	return slices.DeleteFunc(event.Names(), func(n event.Name) bool { return n.IsNative() || n.IsInternal() })
}

func (w wanted) has(name event.Name) bool {
	return name.IsNative() || !name.IsInternal() && (w.all || slices.Contains(w.names, name))
}

// cursor is the place of an event in its own log.
func cursor(dst []byte, incarnation string, n uint64) []byte {
	return strconv.AppendUint(append(append(dst, incarnation...), '-'), n, 10)
}

// stream writes server-sent events: the id, the event's name, the event.
type stream struct {
	from   uint64
	wanted wanted
	place  dialect.Place
	id     []byte // of the event being written
}

func (*stream) ContentType() string { return sse.ContentType }
func (s *stream) Start() uint64     { return s.from }

func (s *stream) Append(dst []byte, f event.Frame) ([]byte, error) {
	var err error
	for line := range f.Each() {
		if line.N < s.from || !s.wanted.has(line.Name) {
			continue
		}
		s.id = s.place(s.id[:0], f.Incarnation, line.N)
		if dst, err = sse.Append(dst, s.id, string(line.Name), line.JSON); err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
	}
	return dst, nil
}

func (*stream) Note(dst []byte, n dialect.Note) []byte {
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

// lines writes an event a line.
type lines struct {
	from   uint64
	wanted wanted
}

func (*lines) ContentType() string { return NDJSON }
func (l *lines) Start() uint64     { return l.from }

func (l *lines) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		if line.N >= l.from && l.wanted.has(line.Name) {
			dst = append(append(dst, line.JSON...), '\n')
		}
	}
	return dst, nil
}

// Note writes nothing: JSON lines have no place for it.
func (*lines) Note(dst []byte, _ dialect.Note) []byte { return dst }
