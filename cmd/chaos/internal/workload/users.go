// Package workload runs the clients of a run. Each is a user with a separate seed who runs scenarios one after the
// other: starts requests, reads their streams, disconnects and resumes, retries unanswered calls, aborts, and resolves
// actions twice. The operation log records what the users did and received; users check nothing.
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

// Users is the users of a run.
type Users struct {
	Gateways []string                   // URLs
	Hub      string                     // URL
	Remote   func(tenant string) string // the remote agent of a tenant
	Keys     map[string]string          // API keys by tenant
	Tenants  []string
	Users    int
	Seed     uint64
	Log      *oplog.Log
}

// group is a Crew at work.
type group struct {
	Users
	http *http.Client

	mu    sync.Mutex
	known map[string][]string // some requests, by tenant: what spies ask for
}

// user is one of them. It is for one goroutine, but for the calls that say otherwise.
type user struct {
	group    *group
	name     string
	tenant   string
	rng      *rand.Rand
	scenario int // number of the current scenario
	parts    int // of the scenario
}

// Run runs scenarios of all users until load is done. Scenarios in progress continue to their end, or until ctx is
// done. It returns the number of started scenarios.
func (c Users) Run(ctx, load context.Context) int {
	transport := &http.Transport{
		MaxIdleConnsPerHost: c.Users, ResponseHeaderTimeout: time.Minute, DisableCompression: true, IdleConnTimeout: time.Minute,
	}
	defer transport.CloseIdleConnections()
	all := &group{Users: c, http: &http.Client{Transport: transport}, known: map[string][]string{}}
	users := make([]*user, c.Users)
	var telling sync.WaitGroup
	for i := range users {
		u := &user{
			group: all, name: fmt.Sprintf("u%d", i), tenant: c.Tenants[i%len(c.Tenants)],
			rng: rand.New(rand.NewPCG(c.Seed, uint64(i)+1)), //nolint:gosec // it must be repeatable
		}
		users[i] = u
		telling.Go(func() {
			for load.Err() == nil {
				u.scenario++
				u.parts = 0
				u.runScenario(ctx)
			}
		})
	}
	telling.Go(func() { all.probe(ctx, load) })
	telling.Wait()
	told := 0
	for _, u := range users {
		told += u.scenario
	}
	return told
}

// fork returns a user of the same scenario for another goroutine.
func (u *user) fork() *user {
	u.parts++
	return &user{
		group: u.group, name: fmt.Sprintf("%s.%d.%d", u.name, u.scenario, u.parts), tenant: u.tenant, scenario: u.scenario,
		rng: rand.New(rand.NewPCG(u.rng.Uint64(), u.rng.Uint64())), //nolint:gosec // it must be repeatable
	}
}

// label returns a name that is unique among all parts of all scenarios.
func (u *user) label(what string) string {
	u.parts++
	return fmt.Sprintf("%s-%s-%d-%d", what, u.name, u.scenario, u.parts)
}

func (u *user) chance(percent int) bool { return u.rng.IntN(100) < percent }

// between returns a duration from a to b.
func (u *user) between(a, b time.Duration) time.Duration { return a + rand.N(b-a+1) } //nolint:gosec // waits need not repeat

// gateway returns any of them.
func (u *user) gateway() string { return u.group.Gateways[u.rng.IntN(len(u.group.Gateways))] }

// remember makes a request known to spies.
func (c *group) remember(tenant, request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[tenant] = append(c.known[tenant], request)
}

// foreign returns a request of another tenant, or "".
func (c *group) foreign(u *user) string {
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
