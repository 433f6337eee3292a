// Package limit bounds what one caller takes of one process: connections of an address, concurrent streams of a
// principal, requests per time of a caller. Rates that all gateways share are counted in pkg/rediscache.
package limit

import "sync"

// Quota lets each key hold a number of places. It is safe for concurrent use.
type Quota struct {
	limit int

	mu   sync.Mutex
	held map[string]int // never zero
}

// NewQuota returns a quota of limit places for each key; 0 = no limit.
func NewQuota(limit int) *Quota { return &Quota{limit: limit, held: map[string]int{}} }

// Enter takes a place for key, unless all of its places are taken. Call leave once to give it back.
func (q *Quota) Enter(key string) (leave func(), ok bool) {
	if q.limit == 0 {
		return func() {}, true
	}
	if q.add(key, q.limit) > q.limit {
		return nil, false
	}
	return func() { q.leave(key) }, true
}

// add takes one more place and returns how many key then has. With more than most it takes none, and returns most + 1.
func (q *Quota) add(key string, most int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[key] >= most {
		return most + 1
	}
	q.held[key]++
	return q.held[key]
}

func (q *Quota) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[key]--; q.held[key] <= 0 {
		delete(q.held, key)
	}
}
