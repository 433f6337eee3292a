package event

import (
	"fmt"
	"strconv"
	"strings"
)

// Cursor marks a place in a request's log: "<incarnation>-<n>", where n counts the request's events from 0 and the
// incarnation names the stream that holds them, so that a place in a lost stream is never taken for one in its
// successor. It is the SSE id of the event. Clients keep it and hand it back; they never take it apart.
type Cursor string

// NewCursor makes the cursor of event n in a stream's incarnation.
func NewCursor(incarnation string, n uint64) Cursor {
	return Cursor(incarnation + "-" + strconv.FormatUint(n, 10))
}

// ParseCursor takes a cursor apart. It accepts only what NewCursor makes.
func ParseCursor(s string) (incarnation string, n uint64, err error) {
	incarnation, digits, ok := strings.Cut(s, "-")
	if !ok || !isIncarnation(incarnation) || len(digits) > 1 && digits[0] == '0' {
		return "", 0, fmt.Errorf("cursor %.40q is not of the form <incarnation>-<n>", s)
	}
	n, err = strconv.ParseUint(digits, 10, 63)
	if err != nil || digits[0] == '+' {
		return "", 0, fmt.Errorf("cursor %.40q is not of the form <incarnation>-<n>", s)
	}
	return incarnation, n, nil
}

// MaxIncarnation is the longest name of a stream's incarnation.
const MaxIncarnation = 16

func isIncarnation(s string) bool {
	if len(s) == 0 || len(s) > MaxIncarnation {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) < 0
}
