package api

import (
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Replays returns what paces streams with a number of places.
func Replays(places int) func(tenant string, frames stream.Frames) stream.Frames {
	return (&API{replays: budget.NewTurns(places)}).paced
}
