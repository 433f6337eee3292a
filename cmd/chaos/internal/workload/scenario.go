package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/event"
)

// runScenario runs one scenario.
func (u *user) runScenario(ctx context.Context) {
	switch n := u.rng.IntN(170); {
	case n >= 140:
		u.brief(ctx)
	case n >= 136:
		u.retrying(ctx)
	case n < 30:
		u.streamed(ctx)
	case n < 50:
		u.background(ctx)
	case n < 62:
		u.conversation(ctx)
	case n < 72:
		u.crowded(ctx)
	case n < 86:
		u.acting(ctx)
	case n < 95:
		u.waiting(ctx)
	case n < 110:
		u.delegating(ctx)
	case n < 120:
		u.watching(ctx)
	case n < 135:
		u.remote(ctx)
	default:
		u.readForeign(ctx)
	}
	pause(ctx, u.between(0, 300*time.Millisecond))
}

// script is something to do, with the tenant's canary in it.
func (u *user) script() string {
	lines := []string{fmt.Sprintf("/say %s %s", Secret(u.tenant), u.label("says"))}
	for range 1 + u.rng.IntN(4) {
		switch u.rng.IntN(6) {
		case 0:
			lines = append(lines, "/think about it for a while")
		case 1, 2:
			lines = append(lines, fmt.Sprintf("/stream %d %d", 10+u.rng.IntN(60), 20+u.rng.IntN(80)))
		case 3:
			lines = append(lines, "/tool "+u.call())
		case 4:
			lines = append(lines, "/tools "+u.call()+"; "+u.call())
		case 5:
			lines = append(lines, fmt.Sprintf("/sleep %dms", 100+u.rng.IntN(900)))
		}
	}
	return strings.Join(append(lines, "/say the end"), "\n")
}

// call is a call of a tool that notes its executions.
func (u *user) call() string {
	name := []string{journal.None, journal.Idempotent, journal.Unsafe}[u.rng.IntN(3)]
	return fmt.Sprintf(`%s {"mark":"%s","delay":"%dms"}`, name, u.label("mark"), u.rng.IntN(800))
}

func says(thread, script string) event.AgentRequest {
	return event.AgentRequest{ThreadID: thread, Messages: []event.InputMessage{event.UserText(script)}}
}

// key is one mostly.
func (u *user) key() string {
	if u.chance(20) {
		return ""
	}
	return u.label("key")
}

// streamed reads a request where it was started, leaves and comes back, and sometimes aborts it.
func (u *user) streamed(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	r := u.newReader()
	script := u.script()
	if u.chance(70) {
		// Started elsewhere, so that its id is known before it ends.
		got, _ := u.post(ctx, order{body: says("", script), key: u.key()})
		if !got.taken() {
			return
		}
		u.disturb(ctx, &others, got.request)
		u.follow(ctx, r, got.request, &transcript{})
		return
	}
	got, seen := u.post(ctx, order{body: says("", script), key: u.key(), stream: true, reader: r})
	if got.request != "" {
		u.follow(ctx, r, got.request, seen)
	}
}

// disturb runs other users that abort and read the same request.
func (u *user) disturb(ctx context.Context, others *sync.WaitGroup, request string) {
	if u.chance(40) {
		aborter, after := u.fork(), u.between(0, 1500*time.Millisecond)
		others.Go(func() {
			pause(ctx, after)
			aborter.abort(ctx, request)
		})
	}
	if u.chance(40) {
		talker, after := u.fork(), u.between(0, time.Second)
		others.Go(func() {
			pause(ctx, after)
			talker.steer(ctx, request)
		})
	}
	for range u.rng.IntN(3) {
		second := u.fork()
		r := second.newReader()
		others.Go(func() { second.follow(ctx, r, request, &transcript{}) })
	}
}

// background starts a request twice at the same time with the same key, and reads it, or does not.
func (u *user) background(ctx context.Context) {
	o := order{body: says("", u.script()), key: u.label("key")}
	var twins sync.WaitGroup
	results := make([]outcome, 2)
	for i := range results {
		twin := u.fork()
		twins.Go(func() { results[i], _ = twin.post(ctx, o) })
	}
	twins.Wait()
	if results[0].taken() && u.chance(60) {
		u.follow(ctx, u.newReader(), results[0].request, &transcript{})
	}
}

// brief makes many short requests, one or a few at a time. Outages meet more of them than of long ones: as they are
// accepted, claimed, ended and read for the first time.
func (u *user) brief(ctx context.Context) {
	for range 2 + u.rng.IntN(4) {
		var some sync.WaitGroup
		for range 1 + u.rng.IntN(4) {
			one := u.fork()
			some.Go(func() { one.short(ctx) })
		}
		some.Wait()
	}
}

// short makes a short request by either route, and mostly reads it.
func (u *user) short(ctx context.Context) {
	r := u.newReader()
	o := order{body: says("", "/say "+u.label("brief")+"\n/stream 5 100\n/say the end"), key: u.key()}
	if u.chance(50) {
		o.stream, o.reader = true, r
	}
	got, seen := u.post(ctx, o)
	if got.taken() && got.request != "" && (o.stream || u.chance(70)) {
		u.follow(ctx, r, got.request, seen)
	}
}

// conversation sends several requests on one thread, sometimes two at once.
func (u *user) conversation(ctx context.Context) {
	thread := ""
	for range 2 + u.rng.IntN(3) {
		o := order{body: says(thread, u.script()), key: u.label("key"), retryBusy: true}
		var rival sync.WaitGroup
		if thread != "" && u.chance(50) {
			other := u.fork()
			rival.Go(func() { other.post(ctx, order{body: says(thread, "/say me first"), key: other.label("key")}) })
		}
		got, _ := u.post(ctx, o)
		rival.Wait()
		if !got.taken() {
			return
		}
		thread = got.thread
		u.follow(ctx, u.newReader(), got.request, &transcript{})
	}
}

// crowded puts several requests on one thread at once, where they wait for one another or interrupt one another.
func (u *user) crowded(ctx context.Context) {
	agent := []string{"queueing", "interrupting"}[u.rng.IntN(2)]
	first, _ := u.post(ctx, order{agent: agent, body: says("", u.script()), key: u.label("key")})
	if !first.taken() {
		return
	}
	var others sync.WaitGroup
	for range 1 + u.rng.IntN(3) {
		other := u.fork()
		o := order{agent: agent, body: says(first.thread, "/say next\n/sleep 200ms"), key: other.label("key")}
		if other.chance(30) {
			o.follows, o.body.ThreadID = first.request, ""
		}
		others.Go(func() {
			got, _ := other.post(ctx, o)
			if !got.taken() {
				return
			}
			if other.chance(30) {
				other.abort(ctx, got.request)
			}
			other.follow(ctx, other.newReader(), got.request, &transcript{})
		})
	}
	u.follow(ctx, u.newReader(), first.request, &transcript{})
	others.Wait()
}

// acting waits for an action and resolves it twice at the same time, with different answers.
func (u *user) acting(ctx context.Context) {
	line := fmt.Sprintf(`/approve %s {"mark":"%s"}`, journal.Approved, u.label("mark"))
	switch u.rng.IntN(3) {
	case 0:
		line = "/ask Which one?"
	case 1:
		line = "/client-tool pick {}"
	}
	got, _ := u.post(ctx, order{body: says("", "/say wait\n"+line+"\n/say "+Secret(u.tenant)), key: u.label("key")})
	if !got.taken() {
		return
	}
	seen := &transcript{}
	u.follow(ctx, u.newReader(), got.request, seen)
	if seen.ended && len(seen.actions) > 0 {
		u.resolveTwice(ctx, "demo", got.thread, seen.actions[0].ActionID)
	}
}

// waiting reads a stream in which nothing happens for a while, or one that takes many steps.
func (u *user) waiting(ctx context.Context) {
	script := "/sleep 6s\n/say awake"
	if u.chance(70) {
		step := fmt.Sprintf("/tool %s {\"delay\":\"1500ms\"}\n/say a step\n", journal.Idempotent)
		script = strings.Repeat(step, 6) + "/say there"
	}
	got, _ := u.post(ctx, order{body: says("", script), key: u.label("key")})
	if !got.taken() {
		return
	}
	var others sync.WaitGroup
	defer others.Wait()
	if u.chance(40) {
		talker, after := u.fork(), u.between(0, 5*time.Second)
		others.Go(func() {
			pause(ctx, after)
			talker.steer(ctx, got.request)
		})
	}
	if u.chance(40) { // mostly while a call runs, which another executor gets if this one dies
		aborter, after := u.fork(), u.between(0, 6*time.Second)
		others.Go(func() {
			pause(ctx, after)
			aborter.abort(ctx, got.request)
		})
	}
	u.follow(ctx, reader{session: u.label("read"), format: formatSSE}, got.request, &transcript{})
}

// probeGap is the time between two probes.
const probeGap = 250 * time.Millisecond

// probe makes small requests at a steady pace until load is done, and records how long each takes from its start to its
// terminal event, whatever has to be repeated.
func (c *group) probe(ctx, load context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	places := make(chan struct{}, 64)
	for n := 0; pause(load, probeGap); n++ {
		u := &user{
			group: c, name: fmt.Sprintf("p%d", n), tenant: c.Tenants[0],
			rng: rand.New(rand.NewPCG(c.Seed, 1<<32+uint64(n))), //nolint:gosec // it must be repeatable
		}
		select {
		case places <- struct{}{}:
		default:
			continue // too many wait already
		}
		probes.Go(func() {
			defer func() { <-places }()
			u.probe(ctx)
		})
	}
}

func (u *user) probe(ctx context.Context) {
	entry := oplog.Entry{At: u.group.Log.Now(), Actor: u.name, Op: oplog.Probe, Tenant: u.tenant}
	r := reader{session: u.label("probe"), format: formatSSE}
	got, seen := u.post(ctx, order{body: says("", "/say probe"), key: u.label("key"), stream: true, reader: r})
	if got.request != "" {
		u.follow(ctx, r, got.request, seen)
	}
	if entry.Request = got.request; seen.ended {
		entry.Status = http.StatusOK
	}
	u.group.Log.Add(entry)
}
