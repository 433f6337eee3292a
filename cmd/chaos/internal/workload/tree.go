package workload

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// delegating has an agent call other agents, one after the other, several at once, or through one another. Some of them
// ask for an approval, which the caller has to pass up and down; some trees are aborted while they run.
func (u *user) delegating(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	asks := u.chance(40)
	got, _ := u.post(ctx, order{agent: "lead", body: says("", u.tree(asks)), key: u.label("key")})
	if !got.taken() {
		return
	}
	if u.chance(30) {
		aborter, after := u.fork(), u.between(0, 2500*time.Millisecond)
		others.Go(func() {
			pause(ctx, after)
			aborter.abort(ctx, got.request)
		})
	}
	r := u.newReader()
	r.extended = r.extended || u.chance(50) // the events of the agents below are extended ones
	seen := &transcript{}
	u.follow(ctx, r, got.request, seen)
	if seen.ended && len(seen.actions) > 0 {
		u.resolveTwice(ctx, "lead", got.thread, seen.actions[0].ActionID)
	}
}

// tree is a script whose calls are calls of agents.
func (u *user) tree(asks bool) string {
	lines := []string{fmt.Sprintf("/say %s %s", Secret(u.tenant), u.label("says"))}
	switch leaf := u.prompt(asks); u.rng.IntN(4) {
	case 0:
		lines = append(lines, "/tool "+delegate("helper", leaf))
	case 1:
		lines = append(lines, "/tool "+delegate("deputy", "/say deputy\n/tool "+delegate("helper", leaf)+"\n/say deputy ends"))
	case 2:
		lines = append(lines, "/tools "+delegate("helper", u.prompt(false))+"; "+delegate("deputy", leaf))
	case 3:
		nested := "/tools " + delegate("helper", u.prompt(false)) + "; " + delegate("clerk", u.prompt(false))
		lines = append(lines, "/tools "+delegate("deputy", nested+"\n/say deputy ends")+"; "+u.call(), "/tool "+delegate("helper", leaf))
	}
	return strings.Join(append(lines, "/say the end"), "\n")
}

// prompt is what an agent does that is called.
func (u *user) prompt(asks bool) string {
	lines := []string{fmt.Sprintf("/say %s %s", Secret(u.tenant), u.label("errand"))}
	if u.chance(50) {
		lines = append(lines, fmt.Sprintf("/stream %d %d", 10+u.rng.IntN(30), 20+u.rng.IntN(60)))
	}
	if asks {
		lines = append(lines, fmt.Sprintf(`/approve %s {"mark":"%s"}`, journal.Approved, u.label("mark")))
	}
	return strings.Join(append(lines, "/tool "+u.call(), "/say the errand ends"), "\n")
}

// delegate is a call of an agent.
func delegate(agent, script string) string {
	task, err := json.Marshal(map[string]string{"task": script})
	if err != nil {
		panic(err) // a string always has a form
	}
	return "agent__" + agent + " " + string(task)
}

// resolveTwice resolves an action twice at the same time, with different answers, and reads what comes of them.
func (u *user) resolveTwice(ctx context.Context, agent, thread, action string) {
	var both sync.WaitGroup
	for i, status := range []event.ActionStatus{event.ActionSuccess, event.ActionDenied} {
		one := u.fork()
		body := event.AgentRequest{ThreadID: thread, Messages: []event.InputMessage{}}
		body.Context.ActionResults = []event.ActionResult{{ActionID: action, Status: status, Result: []byte(`"this"`)}}
		both.Go(func() {
			won, _ := one.post(ctx, order{agent: agent, body: body, key: one.label("key"), allow: i == 0})
			if won.taken() {
				one.follow(ctx, one.newReader(), won.request, &transcript{})
			}
		})
	}
	both.Wait()
}
