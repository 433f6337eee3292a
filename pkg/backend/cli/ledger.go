package cli

import (
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// maxSessions bounds the sessions of which a ledger remembers what they used.
const maxSessions = 1000

// ledger sums the usage of sessions, and of all sessions by day and month in UTC (agentic, get_usage). It is safe for
// concurrent use; the zero value is empty.
type ledger struct {
	mu       sync.Mutex
	sessions map[string]event.Usage
	order    []string // of the sessions' first turns
	day      window
	month    window
}

// window is what was used in a period that has a name.
type window struct {
	name string
	used event.Usage
}

func (w *window) in(name string) *window {
	if w.name != name {
		*w = window{name: name}
	}
	return w
}

func (l *ledger) add(sessionID string, used event.Usage, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	day, month := l.windows(now)
	day.used, month.used = day.used.Add(used), month.used.Add(used)
	if sessionID == "" {
		return
	}
	if l.sessions == nil {
		l.sessions = make(map[string]event.Usage)
	}
	if _, known := l.sessions[sessionID]; !known {
		l.order = append(l.order, sessionID)
		if len(l.order) > maxSessions {
			delete(l.sessions, l.order[0])
			l.order = l.order[1:]
		}
	}
	l.sessions[sessionID] = l.sessions[sessionID].Add(used)
}

func (l *ledger) windows(now time.Time) (day, month *window) {
	now = now.UTC()
	return l.day.in(now.Format(time.DateOnly)), l.month.in(now.Format("2006-01"))
}

func (l *ledger) periods(sessionID string, now time.Time) (backend.Periods, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used, known := l.sessions[sessionID]
	day, month := l.windows(now)
	return backend.Periods{Session: used, Day: day.used, Month: month.used}, known
}
