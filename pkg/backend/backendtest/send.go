package backendtest

import (
	"context"

	"github.com/agentbus/agentbus/pkg/backend"
)

// Sent is what one turn of a session gave.
type Sent struct {
	Text    string
	Chunks  []backend.Chunk
	State   backend.State // the newest
	Outcome backend.Outcome
	Err     error
}

// Send starts a session from a state, and sends it one turn.
func Send(ctx context.Context, b backend.Backend, state backend.State, turn backend.Turn) (sent Sent) {
	s, err := b.Start(ctx, backend.Start{State: state, ThreadID: "thr_1"})
	if err != nil {
		sent.Err = err
		return sent
	}
	sent.Outcome, sent.Err = s.Send(ctx, turn, func(c backend.Chunk) error {
		sent.Chunks = append(sent.Chunks, c)
		switch c := c.(type) {
		case backend.TextDelta:
			sent.Text += string(c)
		case backend.State:
			sent.State = c
		}
		return nil
	})
	return sent
}
