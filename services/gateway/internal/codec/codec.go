// Package codec defines how a protocol decodes requests and encodes logs and errors. A codec depends neither on HTTP nor on the
// source of a log. Each protocol has its codec in a package wire below it, which must pass protocoltest.
package codec

import (
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// Codec encodes and decodes one wire format. It is safe for concurrent use.
type Codec interface {
	// Decode decodes the body of a new request. Its error is a *apierr.Error with InvalidMessageFormat that gives the position
	// of the mistake and how to correct it.
	Decode(body []byte) (event.AgentRequest, error)

	// Encoder returns an encoder for one response in the format that o selects, or a *apierr.Error with InvalidMessageFormat
	// if o selects an unknown format or event.
	Encoder(o Options) (Encoder, error)

	// ErrorResponse encodes an error that replaces a response, as the body of an HTTP response.
	EncodeError(f ErrorResponse) (contentType string, body []byte)
}

// Options select how a log is encoded.
type Options struct {
	Accept  string     // the Accept header
	Include []string   // names of additional events, or "extended" for all of them
	From    uint64     // n of the first event to write
	Cursor  CursorFunc // nil = the event's own cursor
	// ToolOutput reports whether the client may read the output of tools in the log of the current frame; nil = no. The output
	// is written if Include asks for it as well.
	ToolOutput func() bool
	ThreadID   string // the thread's id, for a format that interleaves several threads; "" = that of the log
}

// CursorFunc appends to dst the cursor of event n in an incarnation of a log.
type CursorFunc func(dst []byte, incarnation string, n uint64) []byte

// AppendCursor is the CursorFunc of an event's own cursor, as in its log.
func AppendCursor(dst []byte, incarnation string, n uint64) []byte {
	return strconv.AppendUint(append(append(dst, incarnation...), '-'), n, 10)
}

// Encoder encodes one log, from its beginning or from a cursor. Its output depends on the events alone, so that the bytes after
// a resume continue those before it. It is for one goroutine.
type Encoder interface {
	// ContentType is the media type of what Append writes.
	ContentType() string

	// Start is n of the first event that Append must be given: Options.From, or less for a format whose state depends on
	// earlier events.
	Start() uint64

	// Append appends the frame's events to dst, except those before Options.From and those that are not selected. Frames
	// must come in order and without gaps.
	Append(dst []byte, f event.Frame) ([]byte, error)

	// AppendControl appends a control message for the connection, such as a heartbeat, if the format has one.
	AppendControl(dst []byte, n Control) []byte
}

// ThreadEncoder is an Encoder for a format with events about threads, which no log contains.
type ThreadEncoder interface {
	// ThreadStarted appends the event for the start of a thread, which precedes its first event.
	ThreadStarted(dst []byte, t Thread) ([]byte, error)
	// ThreadDeleted appends the event for the deletion of a thread, which follows its last event.
	ThreadDeleted(dst []byte, t Thread) ([]byte, error)
}

// Thread is the data of these events.
type Thread struct {
	ID        string
	AgentID   string
	CreatedAt time.Time
	DeletedAt time.Time
	Messages  int // at the end of the thread
}

// Control is a message for the connection. Fields with zero values are omitted.
type Control struct {
	Retry   time.Duration // wait this long before the next connect
	Comment string        // a comment, also used to keep an idle connection alive
}

// ErrorResponse is an error for a client.
type ErrorResponse struct {
	*apierr.Error
	RequestID string // "" = the call was refused before it got an id
	ThreadID  string
	At        time.Time
}
