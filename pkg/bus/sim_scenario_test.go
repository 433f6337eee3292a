package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
)

// scenario is a story that runs are made of. Of each kind of process it has more than one, so that one may come to harm.
type scenario struct {
	name                         string
	runners, gateways, executors int
	plans                        map[string]simPlan
	announces                    map[string]string // action by the request that asks for it
	play                         func(*simWorld)
	slots                        int  // of each runner; 0 = 4
	short                        bool // few calls: every pair of crashes is tried
}

func scenarios() []scenario {
	brief := simPlan{steps: 2, think: 200 * time.Millisecond}
	return []scenario{
		{name: "claim", runners: 2, gateways: 2, plans: map[string]simPlan{"r1": {}}, play: playClaim, short: true},
		{name: "append and terminal", runners: 2, gateways: 2, plans: map[string]simPlan{"r1": {steps: 4, think: time.Second}},
			play: playOne, short: true},
		{name: "takeover", runners: 3, gateways: 2, plans: map[string]simPlan{"r1": {steps: 6, think: 6 * time.Second}}, play: playOne},
		{name: "two claimants", runners: 3, gateways: 2, plans: map[string]simPlan{"r1": {steps: 3, think: 2 * slow}}, play: playClaimants},
		{name: "resolve by two gateways", runners: 2, gateways: 3, announces: map[string]string{"act": "r1"},
			plans: map[string]simPlan{"r1": {steps: 1}, "r2": brief, "r3": brief}, play: playResolve},
		{name: "abort against done", runners: 2, gateways: 2, plans: map[string]simPlan{"r1": {steps: 3, think: 40 * time.Millisecond}},
			play: playAbort},
		{name: "two requests on one thread", runners: 2, gateways: 2, plans: map[string]simPlan{"r1": brief, "r2": brief},
			play: playReject},
		{name: "requests that wait", runners: 2, gateways: 2,
			plans: map[string]simPlan{"r1": brief, "r2": brief, "r3": brief, "r4": brief}, play: playQueue},
		{name: "a tenant's backlog", runners: 2, gateways: 2, slots: 1,
			plans: map[string]simPlan{"r1": brief, "r2": brief, "r3": brief, "r4": brief, "r5": brief}, play: playBacklog},
		{name: "idempotent retry", runners: 2, gateways: 3, plans: map[string]simPlan{"r1": brief}, play: playRetry},
		{name: "steer", runners: 2, gateways: 2, plans: map[string]simPlan{"r1": {steps: 3, think: time.Second}}, play: playSteer},
		{name: "tool", runners: 2, gateways: 2, executors: 3,
			plans: map[string]simPlan{"r1": {steps: 1, tool: "call", think: 4 * time.Second}}, play: playOne},
	}
}

// first is how the request begins that a story is about.
func first(requestID string) simCall { return simCall{requestID: requestID, threadID: "thr"} }

func playClaim(w *simWorld) {
	w.client("a", func(c *simClient) error { return c.post(first("r1")) })
}

func playOne(w *simWorld) {
	w.client("a", func(c *simClient) error {
		if err := c.post(first("r1")); err != nil {
			return err
		}
		return c.watch("r1")
	})
	w.client("early", func(c *simClient) error { return c.watch("r1") })
}

// playClaimants has every runner work on the same request at once, also without its pointer.
func playClaimants(w *simWorld) {
	w.client("a", func(c *simClient) error {
		if err := c.post(first("r1")); err != nil {
			return err
		}
		for _, r := range w.runners {
			w.actors.Go(func() {
				_ = r.handle(r.ctx, record.Start{Tenant: simTenant, RequestID: "r1", ThreadID: "thr"}) // the pointer is still there
			})
		}
		return c.watch("r1")
	})
}

func playResolve(w *simWorld) {
	w.client("first", func(c *simClient) error {
		if err := c.post(first("r1")); err != nil {
			return err
		}
		if err := c.watch("r1"); err != nil {
			return err
		}
		for _, requestID := range []string{"r2", "r3"} {
			w.client(requestID, func(c *simClient) error {
				c.turn = int(requestID[1])
				call := first(requestID)
				call.resolves = "act"
				err := c.insist(call)
				if errors.Is(err, errSimResolved) {
					return nil
				}
				return err
			})
		}
		return nil
	})
}

func playAbort(w *simWorld) {
	w.client("a", func(c *simClient) error {
		if err := c.post(first("r1")); err != nil {
			return err
		}
		return c.watch("r1")
	})
	for _, name := range []string{"stop", "stop!"} {
		w.client(name, func(c *simClient) error {
			luck := w.dice.at("abort", name)
			if err := broker.Pause(w.ctx, spell(luck, slow, 200*time.Millisecond)); err != nil {
				return err
			}
			err := c.abort("r1")
			if errors.Is(err, broker.ErrEnded) {
				return nil
			}
			return err
		})
	}
}

func playReject(w *simWorld) {
	for _, requestID := range []string{"r1", "r2"} {
		w.client(requestID, func(c *simClient) error {
			c.turn = int(requestID[1])
			if err := c.insist(first(requestID)); err != nil {
				return err
			}
			return c.watch(requestID)
		})
	}
}

// playQueue has four requests come at once, of which three may wait, and one that waits is aborted.
func playQueue(w *simWorld) {
	for i, requestID := range []string{"r1", "r2", "r3", "r4"} {
		w.client(requestID, func(c *simClient) error {
			c.turn = i
			call := first(requestID)
			call.queue = 3
			if err := broker.Pause(w.ctx, spell(w.dice.at("post", requestID), slow, 20*slow)); err != nil {
				return err
			}
			if err := c.insist(call); err != nil {
				return err
			}
			if requestID == "r3" {
				if err := c.abort(requestID); err != nil && !errors.Is(err, broker.ErrEnded) {
					return err
				}
			}
			return c.watch(requestID)
		})
	}
}

// playBacklog has five requests come at once, each on a thread of its own.
func playBacklog(w *simWorld) {
	for i, requestID := range []string{"r1", "r2", "r3", "r4", "r5"} {
		w.client(requestID, func(c *simClient) error {
			c.turn = i
			if err := broker.Pause(w.ctx, spell(w.dice.at("post", requestID), slow, 20*slow)); err != nil {
				return err
			}
			if err := c.post(simCall{requestID: requestID, threadID: "thr-" + requestID}); err != nil {
				return err
			}
			return c.watch(requestID)
		})
	}
}

func playRetry(w *simWorld) {
	for i, name := range []string{"a", "b", "c"} {
		w.client(name, func(c *simClient) error {
			c.turn = i
			return c.post(first("r1"))
		})
	}
}

func playSteer(w *simWorld) {
	w.client("a", func(c *simClient) error {
		if err := c.post(first("r1")); err != nil {
			return err
		}
		return c.watch("r1")
	})
	for i := range 3 {
		w.client(fmt.Sprint("steer-", i), func(c *simClient) error {
			if err := broker.Pause(w.ctx, spell(w.dice.at("steer", c.name), slow, 4*time.Second)); err != nil {
				return err
			}
			err := c.steer("r1", fmt.Sprint("s", i/2)) // the last one alone, the others with the same name
			if errors.Is(err, broker.ErrEnded) || errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
	}
}
