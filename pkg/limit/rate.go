package limit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how often one caller may ask.
type Rate struct {
	Requests int
	Per      time.Duration
	Burst    int
}

// maxKnown limits how many callers have a separate count. One more resets all counts.
const maxKnown = 4096

// Rates counts requests by caller. It is safe for concurrent use.
type Rates struct {
	rate Rate

	mu    sync.Mutex
	known map[string]*rate.Limiter
}

// NewRates returns a count that grants every caller the same rate.
func NewRates(r Rate) *Rates { return &Rates{rate: r, known: map[string]*rate.Limiter{}} }

// Allow counts a request. When it exceeds the rate, wait is the time until the next one is allowed.
func (l *Rates) Allow(caller string) (wait time.Duration, ok bool) {
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
