package protocol

import (
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Pace returns a function that limits the reading of storage to a number of streams at one time.
func Pace(streams int) func(tenant string, frames stream.Frames) stream.Frames {
	return (&Host{replays: budget.NewTurns(streams, budget.Pace{})}).pace
}
