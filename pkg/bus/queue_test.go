package bus

import (
	"context"
	"testing"

	"github.com/agentbus/agentbus/pkg/command"
)

func TestWhoIsStoppedBeforeTheFirstMessageHasNotFailed(t *testing.T) {
	t.Parallel()
	b := open(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for name, work := range map[string]func() error{
		"requests":   func() error { return b.Starts(ctx, 1, func(context.Context, command.Start) error { return nil }) },
		"tool calls": func() error { return b.ToolCalls(ctx, 1, func(context.Context, command.ToolCall) error { return nil }) },
		"projection": func() error {
			return b.Project(ctx, func(context.Context, []Entry) ([]error, error) { return nil, nil })
		},
	} {
		if err := work(); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
