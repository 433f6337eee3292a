package dev

import (
	"context"
	"testing"

	"github.com/agentbus/agentbus/pkg/service"
)

// A service that is stopped later in an ordered stop must take no work while an earlier one finishes its own.
func TestHaltedServicesStopAtOnce(t *testing.T) {
	t.Parallel()
	halted, halt := context.WithCancel(t.Context())
	stopped, stop := context.WithCancel(t.Context())
	begun, finish := make(chan context.Context, 2), make(chan struct{})
	actors := haltedBy(halted, []service.Actor{
		{Name: "tool-executor", Run: func(ctx context.Context) error {
			begun <- ctx
			<-ctx.Done()
			return ctx.Err()
		}},
		{Name: "agent-runner", Run: func(ctx context.Context) error {
			begun <- ctx
			<-finish // it hands its requests over
			return nil
		}},
	})
	ended := make(chan error, 1)
	go func() { ended <- service.RunActors(stopped, actors, grace) }()
	contexts := []context.Context{<-begun, <-begun}
	halt()
	stop()
	for _, ctx := range contexts {
		if ctx.Err() == nil {
			t.Error("a service may take work after the halt")
		}
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Errorf("got %v, want no error for services that were stopped", err)
	}
}
