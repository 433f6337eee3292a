package wire

import (
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Replay makes the states of a thread from the events of its requests, in their order.
type Replay struct {
	state  state
	begun  bool
	states []State
}

// State is the state of a thread at the end of a run, or now for the last one.
type State struct {
	Values Values
	RunID  string
	Agent  string
	At     time.Time  // of the newest event of the run
	End    event.Body // nil = it has not ended
}

// Add adds the next event.
func (r *Replay) Add(e event.Event) {
	if !r.begun {
		r.begun, r.state = true, newState(nil, nil)
	}
	if len(r.states) == 0 || r.state.requestID != e.RequestID {
		r.finish()
		r.state.begin(e.RequestID)
		r.states = append(r.states, State{RunID: e.RequestID})
	}
	r.apply(e.Body)
	last := &r.states[len(r.states)-1]
	last.At = e.Time
	switch b := e.Body.(type) {
	case event.Metadata:
		last.Agent = b.AgentID
	case event.Done, event.Error, event.Aborted:
		last.End = b
	}
}

// finish completes the state of the last run.
func (r *Replay) finish() {
	if n := len(r.states); n > 0 {
		r.state.close()
		r.states[n-1].Values = r.state.values()
	}
}

// apply changes the state by an event. It does what run does, without what is sent.
func (r *Replay) apply(body event.Body) {
	silent := run{begun: true, state: r.state}
	silent.fold(event.Event{Body: body})
	r.state = silent.state
}

// States returns the states, the oldest first.
func (r *Replay) States() []State {
	r.finish()
	return r.states
}
