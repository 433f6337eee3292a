package tarko_test

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
)

// said is a log that fails at its end, unless failure is nil.
func said(failure error) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		bodies := []event.Body{
			event.Input{ThreadID: "thr_1", AgentID: "demo", Messages: []event.InputMessage{event.UserText("hello")}},
			event.Metadata{ThreadID: "thr_1", AgentID: "demo"},
			event.Aborted{},
		}
		for n, body := range bodies {
			if !yield(event.Event{ID: event.NewCursor("one", uint64(n)), RequestID: "req_1", Body: body}, nil) {
				return
			}
		}
		if failure != nil {
			yield(event.Event{}, failure)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	failure := errors.New("cut")
	for _, want := range []error{nil, failure} {
		var types []string
		var got error
		for e, err := range tarko.Events(said(want), tarko.Flat) {
			if got = err; err == nil {
				types = append(types, e.Type)
			}
		}
		if !slices.Equal(types, []string{"user_message", "agent_run_start", "agent_run_end"}) || !errors.Is(got, want) {
			t.Errorf("got %v, %v, want the error %v", types, got, want)
		}
	}
	for e := range tarko.Events(said(nil), tarko.Nested) { // a reader that stops early gets nothing more
		if e.Type != "user_message" {
			t.Errorf("the first event is %s", e.Type)
		}
		break
	}
	nowhere := func(yield func(event.Event, error) bool) { yield(event.Event{Body: event.Aborted{}}, nil) }
	for _, err := range tarko.Events(nowhere, tarko.Flat) {
		if err == nil {
			t.Error("an event without a position is returned")
		}
	}
}
