package api

import "github.com/agentbus/agentbus/services/gateway/internal/stream"

// Replays returns what paces streams with a number of places.
func Replays(places int) func(stream.Frames) stream.Frames {
	return (&API{replays: make(chan struct{}, places)}).paced
}
