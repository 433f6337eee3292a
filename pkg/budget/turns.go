package budget

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Pace limits the cost of the turns of one group: Burst at once, and then Rate a second. The caller chooses the unit. The
// zero value sets no limit.
type Pace struct {
	Rate  float64
	Burst float64
}

// Turns limits how many readers work at the same time. Readers belong to groups: groups that wait are served in turn, and
// within a group the reader that has waited longest is first. A group that exceeds its pace waits for its refill, and
// delays no other group. It is safe for concurrent use.
type Turns struct {
	pace Pace

	mu      sync.Mutex
	free    int
	newest  uint64            // number of the reader that began to wait last
	groups  map[string]*queue // those that hold turns, wait, or have not their whole burst
	sweepAt int               // how many groups there are when those that are not needed are removed
	waiting []*queue          // in turn
	wake    *time.Timer       // at the end of the shortest pause; nil before the first pause
}

// queue is the readers of one group.
type queue struct {
	held    int
	waiting []*Turn // by number
	left    float64 // of the pace, at a time; below zero where turns cost more than was left
	at      time.Time
}

// Turn is what one reader needs to work. It is for one goroutine.
type Turn struct {
	turns   *Turns
	group   string
	number  uint64        // of the reader among those that wait; 0 = it does not wait
	granted chan struct{} // closed when the turn is granted
}

// leastSweep is how many groups are kept without a look at whether they are needed.
const leastSweep = 64

// NewTurns returns turns for so many readers at the same time, at a pace.
func NewTurns(places int, pace Pace) *Turns {
	return &Turns{pace: pace, free: places, groups: map[string]*queue{}, sweepAt: leastSweep}
}

// Turn returns the turn of a reader of a group. The reader does not have it yet.
func (t *Turns) Turn(group string) *Turn { return &Turn{turns: t, group: group} }

// Try takes the turn, if that is possible without a wait and no reader waits.
func (r *Turn) Try() bool {
	t := r.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == 0 || len(t.waiting) > 0 {
		return false
	}
	g := t.queue(r.group)
	if t.pause(g, time.Now()) > 0 {
		return false
	}
	t.give(r, g)
	return true
}

// Take waits for the turn until ctx is done. The reader keeps its position for the next call if that was too early. Give
// the turn back soon: others wait.
func (r *Turn) Take(ctx context.Context) error {
	r.turns.enqueue(r)
	select {
	case <-r.granted:
		return nil
	default:
	}
	select {
	case <-r.granted:
		return nil
	case <-ctx.Done():
	}
	if r.turns.withdraw(r) {
		return nil
	}
	return ctx.Err()
}

// Leave gives the turn back, and charges its cost to the group.
func (r *Turn) Leave(cost int64) {
	t := r.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[r.group]
	if t.pace.Rate > 0 {
		t.refill(g, time.Now())
		g.left -= float64(cost)
	}
	g.held--
	t.free++
	t.grant()
}

func (t *Turns) enqueue(r *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.queue(r.group)
	if len(g.waiting) == 0 {
		t.waiting = append(t.waiting, g)
	}
	if r.number == 0 {
		t.newest++
		r.number = t.newest
	}
	r.granted = make(chan struct{})
	at, _ := slices.BinarySearchFunc(g.waiting, r, func(a, b *Turn) int { return cmp.Compare(a.number, b.number) })
	g.waiting = slices.Insert(g.waiting, at, r)
	t.grant()
}

// withdraw removes a reader from its queue. It returns true when the turn was granted before that.
func (t *Turns) withdraw(r *Turn) (granted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-r.granted:
		return true
	default:
	}
	g := t.groups[r.group]
	g.waiting = slices.DeleteFunc(g.waiting, func(other *Turn) bool { return other == r })
	if len(g.waiting) == 0 {
		t.waiting = slices.DeleteFunc(t.waiting, func(other *queue) bool { return other == g })
	}
	return false
}

// The methods below must be called with mu held.

func (t *Turns) queue(group string) *queue {
	g := t.groups[group]
	if g == nil {
		t.sweep()
		g = &queue{left: t.pace.Burst, at: time.Now()}
		t.groups[group] = g
	}
	return g
}

func (t *Turns) give(r *Turn, g *queue) {
	r.number = 0
	g.held++
	t.free--
}

// grant serves the readers that wait, a group at a time, as long as there are places.
func (t *Turns) grant() {
	if len(t.waiting) == 0 || t.free == 0 {
		return // Leave calls it again
	}
	now, soonest := time.Now(), time.Duration(0)
	for i := 0; i < len(t.waiting) && t.free > 0; {
		g := t.waiting[i]
		if pause := t.pause(g, now); pause > 0 {
			if soonest == 0 || pause < soonest {
				soonest = pause
			}
			i++
			continue
		}
		first := g.waiting[0]
		g.waiting[0] = nil // or the array would keep it
		g.waiting = g.waiting[1:]
		t.give(first, g)
		close(first.granted)
		t.waiting = slices.Delete(t.waiting, i, i+1)
		if len(g.waiting) > 0 {
			t.waiting = append(t.waiting, g)
		}
	}
	if soonest > 0 {
		t.wakeIn(soonest)
	}
}

// wakeIn calls grant after a pause.
func (t *Turns) wakeIn(pause time.Duration) {
	if t.wake != nil {
		t.wake.Reset(pause)
		return
	}
	t.wake = time.AfterFunc(pause, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.grant()
	})
}

// leastPause limits how often a group that exceeds its pace is checked.
const leastPause = time.Millisecond

// pause returns how long a group must wait before its next turn: until it has paid for those that it had.
func (t *Turns) pause(g *queue, now time.Time) time.Duration {
	if t.pace.Rate <= 0 {
		return 0
	}
	t.refill(g, now)
	if g.left >= 0 {
		return 0
	}
	return max(time.Duration(-g.left/t.pace.Rate*float64(time.Second)), leastPause)
}

func (t *Turns) refill(g *queue, now time.Time) {
	g.left = min(g.left+now.Sub(g.at).Seconds()*t.pace.Rate, t.pace.Burst)
	g.at = now
}

// sweep removes the groups that a new one would equal.
func (t *Turns) sweep() {
	if len(t.groups) < t.sweepAt {
		return
	}
	now := time.Now()
	for key, g := range t.groups {
		if t.refill(g, now); g.held == 0 && len(g.waiting) == 0 && g.left >= t.pace.Burst {
			delete(t.groups, key)
		}
	}
	t.sweepAt = max(2*len(t.groups), leastSweep)
}
