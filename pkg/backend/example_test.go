package backend_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// repeater is a model that repeats the user's last message.
type repeater struct{}

// Run implements backend.Model.
func (repeater) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	var words []string
	for _, part := range turn.Messages[len(turn.Messages)-1].Parts {
		if text, ok := part.(backend.Text); ok {
			words = append(words, strings.Fields(text.Text)...)
		}
	}
	for _, word := range words {
		if err := emit(backend.TextDelta(word + " ")); err != nil {
			return backend.Outcome{}, err
		}
	}
	return backend.Outcome{Finish: event.FinishStop}, ctx.Err()
}

// A model that answers each turn by itself needs one method. Backends with sessions implement Backend.
func ExampleStateless() {
	ctx := context.Background()
	session, err := backend.Stateless(repeater{}).Start(ctx, backend.Start{AgentID: "echo"})
	if err != nil {
		fmt.Println(err)
		return
	}
	turn := backend.Turn{Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "hello world"}}}}}
	outcome, err := session.Send(ctx, turn, func(c backend.Chunk) error {
		if text, ok := c.(backend.TextDelta); ok {
			fmt.Print(string(text))
		}
		return nil
	})
	fmt.Println(outcome.Finish, err)
	// Output: hello world stop <nil>
}
