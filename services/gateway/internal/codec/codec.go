// Package codec is the door to the wire formats that clients speak. A dialect reads what a client sends and writes a
// request's log the way that client wants to read it; it knows neither HTTP nor where the log comes from.
//
// To add one, make a folder beside native, pass dialecttest, and add a line to the list in gateway.go.
package codec

import (
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// Codec is one wire format. It is safe for concurrent use.
type Codec interface {
	// Decode reads the body of a new request. What is wrong with it is a *apierr.Error with InvalidMessageFormat that
	// says where and what to do.
	Decode(body []byte) (event.AgentRequest, error)

	// Encoder returns an encoder for one answer in the format that o asks for, or a *apierr.Error with
	// InvalidMessageFormat when o asks for what does not exist.
	Encoder(o Options) (Encoder, error)

	// ErrorResponse encodes an error that takes the place of an answer, as the body of an HTTP response.
	EncodeError(f ErrorResponse) (contentType string, body []byte)
}

// Options say how a client wants a log to be written.
type Options struct {
	Accept   string     // the Accept header
	Include  []string   // names of events beside those that every client gets, or "extended" for all of them
	From     uint64     // n of the first event to write; the client has seen those before
	Cursor   CursorFunc // nil = the event's own cursor
	ThreadID string     // whose log it is, for a format that tells a reader of several; "" = as the log says
}

// Place appends to dst what a client resumes after: the id of event n in a stream's incarnation.
type CursorFunc func(dst []byte, incarnation string, n uint64) []byte

// Encoder writes one log, or the rest of one. Its output depends on the events alone, so that what a client reads after
// a resume continues, byte for byte, what it read before. It is for one goroutine.
type Encoder interface {
	// ContentType is the media type of what Append writes.
	ContentType() string

	// Start is n of the first event that Append must be given: Options.From, or less for a format that needs to know
	// what came before.
	Start() uint64

	// Append adds the frame's events to dst, without those before Options.From and those that this client does not
	// get. Frames come in order and without gaps.
	Append(dst []byte, f event.Frame) ([]byte, error)

	// AppendControl adds something for the connection rather than the reader, if the format has a place for that.
	AppendControl(dst []byte, n Control) []byte
}

// ThreadEncoder is an Encoder that has words for a thread itself, which no log has.
type ThreadEncoder interface {
	// ThreadStarted says that the thread has begun, before its first event.
	ThreadStarted(dst []byte, t Thread) ([]byte, error)
	// ThreadDeleted says that it was deleted, behind its last one.
	ThreadDeleted(dst []byte, t Thread) ([]byte, error)
}

// Thread is what such an encoder tells.
type Thread struct {
	ID        string
	AgentID   string
	CreatedAt time.Time
	DeletedAt time.Time
	Messages  int // until its end
}

// Note is what a connection needs beside events. Zero members are left out.
type Control struct {
	Retry   time.Duration // wait this long before the next connect
	Comment string        // says why; keeps a quiet connection alive
}

// ErrorResponse is an error as a client is told of it.
type ErrorResponse struct {
	*apierr.Error
	RequestID string // "" = the call was refused before it had one
	ThreadID  string
	At        time.Time
}
