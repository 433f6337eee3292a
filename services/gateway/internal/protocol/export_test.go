package protocol

import (
	"context"
	"runtime"

	"github.com/agentbus/agentbus/pkg/budget"
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
