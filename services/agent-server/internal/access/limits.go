package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how often somebody may ask.
type Rate struct {
	Requests int
	Per      time.Duration
	Burst    int
}

// maxKnown is how many callers are told apart. When there are more, all of them begin anew.
const maxKnown = 4096

// Limits count by caller. They are safe for concurrent use.
type Limits struct {
	rate Rate

	mu    sync.Mutex
	known map[string]*rate.Limiter
}

// NewLimits returns limits under which every caller has the same rate.
func NewLimits(r Rate) *Limits { return &Limits{rate: r, known: map[string]*rate.Limiter{}} }

// Allow counts a call, and says how long to wait where it is one too many.
func (l *Limits) Allow(caller string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, known := l.known[caller]
	if !known {
		if len(l.known) >= maxKnown {
			clear(l.known)
		}
		limiter = rate.NewLimiter(rate.Limit(float64(l.rate.Requests)/l.rate.Per.Seconds()), l.rate.Burst)
		l.known[caller] = limiter
	}
	reservation := limiter.Reserve()
	wait = reservation.Delay()
	if wait == 0 {
		return 0, true
	}
	reservation.Cancel()
	return wait, false
}
