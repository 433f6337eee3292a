package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// Offset is a position in a stream: that of a request's log, or that of the logs of a thread. As a text it is
// "<incarnation>_<n>" or "<incarnation>_<index>_<n>" with numbers of a fixed width, so that the texts of one stream sort as the
// positions do.
type Offset struct {
	Incarnation string
	Thread      bool
	Index       int    // of the request on its thread; 0 for the stream of a request
	N           uint64 // of the next event
}

// The widths of the numbers, and the largest ones.
const (
	indexDigits = 10
	nDigits     = 16
	maxIndex    = 1<<31 - 1
)

// String returns the text of the offset.
func (o Offset) String() string { return string(o.Append(nil)) }

// Append appends the text of the offset to dst.
func (o Offset) Append(dst []byte) []byte {
	if o.Thread {
		return fmt.Appendf(dst, "%s_%0*d_%0*d", o.Incarnation, indexDigits, o.Index, nDigits, o.N)
	}
	return fmt.Appendf(dst, "%s_%0*d", o.Incarnation, nDigits, o.N)
}

// Before reports whether o precedes p in the same stream.
func (o Offset) Before(p Offset) bool {
	return o.Index < p.Index || o.Index == p.Index && o.N < p.N
}

// ParseOffset reads the text of an offset, of a thread's stream or of a request's.
func ParseOffset(text string, thread bool) (Offset, error) {
	parts, widths := strings.Split(text, "_"), []int{nDigits}
	if thread {
		widths = []int{indexDigits, nDigits}
	}
	if len(parts) != 1+len(widths) {
		return Offset{}, errOffset(text)
	}
	var numbers [2]uint64
	for i, width := range widths {
		n, err := strconv.ParseUint(parts[1+i], 10, 63)
		if err != nil || len(parts[1+i]) != width {
			return Offset{}, errOffset(text)
		}
		numbers[i] = n
	}
	if _, _, err := event.ParseCursor(parts[0] + "-0"); err != nil {
		return Offset{}, errOffset(text)
	}
	if !thread {
		return Offset{Incarnation: parts[0], N: numbers[0]}, nil
	}
	if numbers[0] > maxIndex {
		return Offset{}, errOffset(text)
	}
	return Offset{parts[0], true, int(numbers[0]), numbers[1]}, nil //nolint:gosec // at most maxIndex
}

func errOffset(text string) error {
	return apierr.New(apierr.InvalidMessageFormat, "offset=%.60q: use a Stream-Next-Offset of this stream, -1 for its beginning, or now", text)
}
