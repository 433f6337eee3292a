// Package sse writes and reads server-sent events, as the HTML standard defines them. The gateway writes, clients read;
// text that must not start a new line is rejected only here.
//
// A server appends to a buffer with [Append], [AppendID], [AppendComment] and [AppendRetry]; a client reads with a
// [Reader], or feeds a [Parser] chunk by chunk.
package sse

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
)

// ContentType is the media type of a stream.
const ContentType = "text/event-stream"

// ErrField means that an id, an event name or a comment holds a character that would end its line, or NUL.
var ErrField = errors.New("sse: an id, event name or comment must not contain CR, LF or NUL")

// Append adds one event to dst. An empty id or name is left out. Data may hold several lines; CR, LF and CRLF all reach
// the client as LF. It returns dst as it was, with [ErrField], when id or name could forge another line.
func Append[ID ~string | ~[]byte](dst []byte, id ID, name string, data []byte) ([]byte, error) {
	if !isField(id) || !isField(name) {
		return dst, ErrField
	}
	if len(id) > 0 {
		dst = append(append(dst, "id: "...), id...)
		dst = append(dst, '\n')
	}
	if name != "" {
		dst = append(append(dst, "event: "...), name...)
		dst = append(dst, '\n')
	}
	dst = appendData(dst, data)
	return append(dst, '\n'), nil
}

// AppendID adds a block of an id alone: it sets what a client resumes after, and dispatches no event.
func AppendID[ID ~string | ~[]byte](dst []byte, id ID) ([]byte, error) {
	if !isField(id) {
		return dst, ErrField
	}
	return append(append(append(dst, "id: "...), id...), "\n\n"...), nil
}

// AppendComment adds a line that clients ignore, which keeps proxies from closing a quiet stream.
func AppendComment(dst []byte, text string) ([]byte, error) {
	if !isField(text) {
		return dst, ErrField
	}
	return append(append(append(dst, ": "...), text...), "\n\n"...), nil
}

// AppendRetry sets how long the client waits before it reconnects, to the millisecond.
func AppendRetry(dst []byte, wait time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), max(wait.Milliseconds(), 0), 10)
	return append(dst, "\n\n"...)
}

func appendData(dst, data []byte) []byte {
	for {
		end := lineEnd(data)
		if end < 0 {
			return append(append(append(dst, "data: "...), data...), '\n')
		}
		dst = append(append(append(dst, "data: "...), data[:end]...), '\n')
		if bytes.HasPrefix(data[end:], []byte("\r\n")) {
			end++
		}
		data = data[end+1:]
	}
}

func isField[F ~string | ~[]byte](f F) bool { return !strings.ContainsAny(string(f), "\r\n\x00") }

// lineEnd is the offset of the first CR or LF, or -1. Two searches for one byte are much faster than one for either.
func lineEnd(data []byte) int {
	lf := bytes.IndexByte(data, '\n')
	if lf >= 0 {
		data = data[:lf]
	}
	if cr := bytes.IndexByte(data, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
