package wire

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// The intervals of the protocol's cursors, by which caches distinguish the responses to the same poll.
const (
	interval   = 20 * time.Second
	maxJitter  = 3600 * time.Second / interval
	maxCursor  = 1 << 52 // a larger cursor of a client is ignored
	epochStart = 1728432000
)

// StreamCursor returns the cursor of a response at a time: the number of the interval, or more if that would not exceed the
// cursor that the client has sent.
func StreamCursor(now time.Time, sent string) string {
	current := uint64(max(now.Sub(time.Unix(epochStart, 0)), 0) / interval)
	if n, err := strconv.ParseUint(sent, 10, 63); err == nil && n >= current && n < maxCursor {
		current = n + 1 + rand.N(uint64(maxJitter)) //nolint:gosec // it spreads the keys of caches
	}
	return strconv.FormatUint(current, 10)
}
