package backend_test

import (
	"context"
	"errors"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// echo is a model that says nothing and reports what it was given.
type echo struct{ turns []string }

func (e *echo) Run(_ context.Context, turn backend.Turn, _ backend.Emit) (backend.Outcome, error) {
	e.turns = append(e.turns, turn.Model)
	return backend.Outcome{Finish: event.FinishStop}, nil
}

// local is a backend that does all that a backend may do.
type local struct{ backend.Backend }

func (local) Available(context.Context) error      { return errors.New("not installed") }
func (local) EstimateCost(backend.Outcome) float64 { return 0.25 }
func (local) Transport() backend.Transport         { return backend.LocalAgent }

func TestStatelessBackendResumesFromConversation(t *testing.T) {
	t.Parallel()
	model := &echo{}
	for _, state := range []backend.State{{}, {ID: "of another day"}} {
		s, err := backend.Stateless(model).Start(t.Context(), backend.Start{State: state})
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := s.Send(t.Context(), backend.Turn{Model: "m" + state.ID}, nil)
		if err != nil || outcome.Finish != event.FinishStop {
			t.Errorf("got %+v, %v", outcome, err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(model.turns) != 2 {
		t.Errorf("the model answered %q", model.turns)
	}
}

func TestWhatABackendDoesNotSayHasADefault(t *testing.T) {
	t.Parallel()
	b := backend.Stateless(&echo{})
	if err := backend.Available(t.Context(), b); err != nil {
		t.Errorf("it is not available: %v", err)
	}
	if got := backend.EstimateCost(b, backend.Outcome{}); got != 0 {
		t.Errorf("it costs %v", got)
	}
	if got := backend.TransportOf(b); got != backend.LLM {
		t.Errorf("its transport is %s", got)
	}
}

func TestWrappersKeepWhatABackendMayDo(t *testing.T) {
	t.Parallel()
	model, passed := &echo{}, 0
	b := backend.Around(local{backend.Stateless(model)}, func(send backend.Send) backend.Send {
		return func(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			passed++
			return send(ctx, turn, emit)
		}
	})
	s, err := b.Start(t.Context(), backend.Start{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), backend.Turn{}, nil); err != nil || passed != 1 || len(model.turns) != 1 {
		t.Errorf("%d turns passed, %d were answered, %v", passed, len(model.turns), err)
	}
	if backend.Available(t.Context(), b) == nil || backend.TransportOf(b) != backend.LocalAgent {
		t.Error("the wrapper hides that the backend is a local agent, and not available")
	}
	if got := backend.EstimateCost(b, backend.Outcome{}); got != 0.25 {
		t.Errorf("it costs %v", got)
	}
}
