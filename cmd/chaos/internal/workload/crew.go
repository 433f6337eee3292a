// Package workload is the clients of a run. Each is a user with a seed of its own who tells stories one after the other:
// starts requests, reads their streams, leaves and comes back, repeats what went unanswered, aborts, and resolves actions
// twice. What the users did and saw goes into the record; they judge nothing.
package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
)

// Crew is the users of a run.
type Crew struct {
	Gateways []string                   // URLs
	Hub      string                     // URL
	Remote   func(tenant string) string // the remote agent of a tenant
	Keys     map[string]string          // API keys by tenant
	Tenants  []string
	Users    int
	Seed     uint64
	Log      *oplog.Log
}

// crew is a Crew at work.
type crew struct {
	Crew
	http *http.Client

	mu    sync.Mutex
	known map[string][]string // some requests, by tenant: what spies ask for
}

// user is one of them. It is for one goroutine, but for the calls that say otherwise.
type user struct {
	crew   *crew
	name   string
	tenant string
	rng    *rand.Rand
	story  int // number of the one that is told
	parts  int // of the story
}

// Run lets the users tell stories until load is done; those begun are told to their end, or until ctx is done. It
// returns how many were begun.
func (c Crew) Run(ctx, load context.Context) int {
	transport := &http.Transport{
		MaxIdleConnsPerHost: c.Users, ResponseHeaderTimeout: time.Minute, DisableCompression: true, IdleConnTimeout: time.Minute,
	}
	defer transport.CloseIdleConnections()
	all := &crew{Crew: c, http: &http.Client{Transport: transport}, known: map[string][]string{}}
	users := make([]*user, c.Users)
	var telling sync.WaitGroup
	for i := range users {
		u := &user{
			crew: all, name: fmt.Sprintf("u%d", i), tenant: c.Tenants[i%len(c.Tenants)],
			rng: rand.New(rand.NewPCG(c.Seed, uint64(i)+1)), //nolint:gosec // it must be repeatable
		}
		users[i] = u
		telling.Go(func() {
			for load.Err() == nil {
				u.story++
				u.parts = 0
				u.tell(ctx)
			}
		})
	}
	telling.Go(func() { all.probe(ctx, load) })
	telling.Wait()
	told := 0
	for _, u := range users {
		told += u.story
	}
	return told
}

// fork returns a user who goes on beside u in the same story, for another goroutine.
func (u *user) fork() *user {
	u.parts++
	return &user{
		crew: u.crew, name: fmt.Sprintf("%s.%d.%d", u.name, u.story, u.parts), tenant: u.tenant, story: u.story,
		rng: rand.New(rand.NewPCG(u.rng.Uint64(), u.rng.Uint64())), //nolint:gosec // it must be repeatable
	}
}

// label is a name that no other part of a story of anybody has.
func (u *user) label(what string) string {
	u.parts++
	return fmt.Sprintf("%s-%s-%d-%d", what, u.name, u.story, u.parts)
}

func (u *user) chance(percent int) bool { return u.rng.IntN(100) < percent }

// between returns a duration from a to b.
func (u *user) between(a, b time.Duration) time.Duration { return a + rand.N(b-a+1) } //nolint:gosec // waits need not repeat

// gateway returns any of them.
func (u *user) gateway() string { return u.crew.Gateways[u.rng.IntN(len(u.crew.Gateways))] }

// remember makes a request known to spies.
func (c *crew) remember(tenant, request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[tenant] = append(c.known[tenant], request)
}

// foreign returns a request of another tenant, or "".
func (c *crew) foreign(u *user) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tenant, requests := range c.known {
		if tenant != u.tenant && len(requests) > 0 {
			return requests[u.rng.IntN(len(requests))]
		}
	}
	return ""
}

// pause waits for d, and reports whether there is time left.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
