package rediscache

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Opened notes that a key has begun a request, until Closed. While Redis is away each process notes for itself.
func (s *Store) Opened(ctx context.Context, keyID, request string) {
	name := key("open", keyID, "requests")
	err := s.do(func() error {
		pipe := s.redis.TxPipeline()
		pipe.SAdd(ctx, name, request)
		pipe.Expire(ctx, name, remember)
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil {
		s.open.add(keyID, request)
	}
}

// Open returns what Opened has noted for a key. It may be too much, for the processes that run requests do not report
// their ends here, and too little after a loss of Redis.
func (s *Store) Open(ctx context.Context, keyID string) []string {
	noted := s.open.of(keyID)
	var shared []string
	err := s.do(func() (err error) {
		shared, err = s.redis.SMembers(ctx, key("open", keyID, "requests")).Result()
		return err
	})
	if err != nil {
		return noted
	}
	return append(shared, noted...)
}

// Closed removes requests of a key that have ended.
func (s *Store) Closed(ctx context.Context, keyID string, requests ...string) {
	if len(requests) == 0 {
		return
	}
	s.open.remove(keyID, requests)
	members := make([]any, len(requests))
	for i, one := range requests {
		members[i] = one
	}
	// What is not removed now is found to have ended again.
	_ = s.do(func() error { return s.redis.SRem(ctx, key("open", keyID, "requests"), members...).Err() })
}

// maxOpen bounds what a process notes while Redis is away.
const maxOpen = 100_000

// localOpen is what a process has noted while Redis was away. The zero value is ready for use.
type localOpen struct {
	mu    sync.Mutex
	byKey map[string]map[string]bool
	count int
}

func (o *localOpen) add(keyID, request string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey == nil || o.count >= maxOpen {
		o.byKey, o.count = map[string]map[string]bool{}, 0
	}
	if o.byKey[keyID] == nil {
		o.byKey[keyID] = map[string]bool{}
	}
	if !o.byKey[keyID][request] {
		o.byKey[keyID][request] = true
		o.count++
	}
}

func (o *localOpen) of(keyID string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.byKey[keyID]))
}

func (o *localOpen) remove(keyID string, requests []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range requests {
		if o.byKey[keyID][one] {
			delete(o.byKey[keyID], one)
			o.count--
		}
	}
	if len(o.byKey[keyID]) == 0 {
		delete(o.byKey, keyID)
	}
}
