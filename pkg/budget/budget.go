// Package budget shares a number of bytes among the readers of a process, so that what they buffer together is bounded
// however many there are.
package budget

import (
	"context"
	"slices"
	"sync"
)

// Default is the size of a budget that is not configured.
const Default = 64 << 20

// Budget is a number of bytes. Readers belong to groups: a group may hold half of the budget, groups that wait take turns,
// and within a group the reader that has waited longest is first. So a group that never gives anything back does not
// block the others. It is safe for concurrent use.
type Budget struct {
	limit int64
	share int64 // of one group

	mu      sync.Mutex
	held    int64
	peak    int64
	groups  map[string]*group // those that hold bytes or wait
	waiting []*group          // in turn
}

// group is the readers of one key.
type group struct {
	key   string
	held  int64
	queue []*waiter
}

type waiter struct {
	bytes   int64
	granted chan struct{} // closed when the bytes are granted
}

// New returns a budget of limit bytes; 0 = [Default].
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = Default
	}
	return &Budget{limit: limit, share: max(limit/2, 1), groups: map[string]*group{}}
}

// Held returns how many bytes are held now.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Peak returns how many bytes were held at most.
func (b *Budget) Peak() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Lease returns a lease of no bytes for a reader of a group.
func (b *Budget) Lease(key string) *Lease { return &Lease{budget: b, key: key} }

// Lease is what one reader holds of a budget. It is for one goroutine.
//
// A reader that waits holds nothing, so readers cannot block one another for ever.
type Lease struct {
	budget *Budget
	key    string
	bytes  int64
}

// Bytes returns how many bytes the lease holds.
func (l *Lease) Bytes() int64 { return l.bytes }

// Try makes the lease one of n bytes, if that is possible without a wait and no reader waits that is to be served first.
// If not, the lease stays as it is.
func (l *Lease) Try(n int64) bool {
	if n <= l.bytes {
		l.Set(n)
		return true
	}
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.group(l.key)
	if more := n - l.bytes; len(g.queue) == 0 && b.fits(g, more) && !b.blocked() {
		b.take(g, more)
		l.bytes = n
		return true
	}
	b.forget(g)
	return false
}

// Wait gives back what the lease holds, and then waits for n bytes until ctx is done. More than a group may have is
// granted when the group holds nothing else.
func (l *Lease) Wait(ctx context.Context, n int64) error {
	l.Set(0)
	b := l.budget
	n = min(n, b.share)
	w := &waiter{bytes: n, granted: make(chan struct{})}
	b.enqueue(l.key, w)
	select {
	case <-w.granted:
	case <-ctx.Done():
		if !b.withdraw(l.key, w) {
			return ctx.Err()
		}
	}
	l.bytes = n
	return nil
}

// Set makes the lease one of n bytes without a wait, whatever the budget is: for what is smaller than was expected, or
// for what is there already.
func (l *Lease) Set(n int64) {
	if n == l.bytes {
		return
	}
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.group(l.key)
	b.take(g, n-l.bytes)
	l.bytes = n
	b.grant()
	b.forget(g)
}

// Release gives everything back.
func (l *Lease) Release() { l.Set(0) }

func (b *Budget) enqueue(key string, w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.group(key)
	if len(g.queue) == 0 {
		b.waiting = append(b.waiting, g)
	}
	g.queue = append(g.queue, w)
	b.grant()
}

// withdraw takes a waiter out of its queue. It returns true when the bytes were granted before that.
func (b *Budget) withdraw(key string, w *waiter) (granted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted:
		return true
	default:
	}
	g := b.group(key)
	g.queue = slices.DeleteFunc(g.queue, func(other *waiter) bool { return other == w })
	if len(g.queue) == 0 {
		b.waiting = slices.DeleteFunc(b.waiting, func(other *group) bool { return other == g })
	}
	b.grant() // the next one may need less
	b.forget(g)
	return false
}

// The methods below must be called with mu held.

func (b *Budget) group(key string) *group {
	g := b.groups[key]
	if g == nil {
		g = &group{key: key}
		b.groups[key] = g
	}
	return g
}

func (b *Budget) forget(g *group) {
	if g.held == 0 && len(g.queue) == 0 {
		delete(b.groups, g.key)
	}
}

func (b *Budget) take(g *group, n int64) {
	g.held += n
	b.held += n
	b.peak = max(b.peak, b.held)
}

func (b *Budget) fits(g *group, n int64) bool {
	return b.held+n <= b.limit && (g.held+n <= b.share || g.held == 0)
}

// blocked reports whether a reader waits for the budget as a whole, which others must not overtake. One that waits for
// its group's share blocks no other group.
func (b *Budget) blocked() bool {
	for _, g := range b.waiting {
		if n := g.queue[0].bytes; g.held+n <= b.share {
			return true
		}
	}
	return false
}

// grant serves those that wait, a group at a time, as far as there is room.
func (b *Budget) grant() {
	for i := 0; i < len(b.waiting); {
		g := b.waiting[i]
		w := g.queue[0]
		if g.held+w.bytes > b.share {
			i++ // it waits for its own group
			continue
		}
		if b.held+w.bytes > b.limit {
			return
		}
		b.take(g, w.bytes)
		close(w.granted)
		g.queue = g.queue[1:]
		b.waiting = slices.Delete(b.waiting, i, i+1)
		if len(g.queue) > 0 {
			b.waiting = append(b.waiting, g)
		}
	}
}
