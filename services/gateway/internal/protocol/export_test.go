package protocol

import (
	"context"
	"runtime"

	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Pace returns a function that limits the reading of storage to a number of streams at one time.
func Pace(streams int) func(tenant string, frames stream.Frames) stream.Frames {
	return (&Host{replays: budget.NewTurns(streams, budget.Pace{})}).pace
}

// OpeningsAtOnce is how many streams a tenant opens without a wait, and OpeningsPerSecond the pace after that.
func OpeningsAtOnce() int    { return openBurst }
func OpeningsPerSecond() int { return openRate * runtime.GOMAXPROCS(0) }

// Openings returns a function that waits until a tenant may open a stream.
func Openings() func(ctx context.Context, tenant string) error {
	return (&Host{openings: newOpenings()}).AwaitOpening
}

// Check returns a request in the form in which it is stored, or why a gateway with cfg refuses it.
func Check(cfg config.Config, r Request) (Request, error) {
	h := &Host{Services: Services{Config: cfg}}
	return h.checked(r)
}

// OutcomeOf collects the outcome of a log.
func OutcomeOf(limit int, frames ...event.Frame) (Outcome, error) {
	c := collector{limit: limit}
	for _, f := range frames {
		if err := c.add(f); err != nil {
			return c.outcome, err
		}
	}
	return c.outcome, nil
}
