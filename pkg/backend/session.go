package backend

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
)

// Backend is what stands behind an agent.
type Backend interface {
	// Start opens a session: a new one, or the one that start.State names (S1, start and resume). It may find out only
	// in the first turn that it cannot. Start is safe for concurrent use.
	Start(ctx context.Context, start Start) (Session, error)
}

// Start says what a session is for (S1, start_opts).
type Start struct {
	State     State // of the session to resume; zero = a new one
	RequestID string
	ThreadID  string
	AgentID   string
	UserID    string // who asks
	Workspace string // folder that the agent works in; "" = the backend's own

	// Running are the tools that ran at the State, which a [Settled] brought. The session ends them like those that it
	// starts.
	Running []RunningTool
}

// Session is a conversation with an agent. Its methods are not safe for concurrent use.
type Session interface {
	// Send lets the agent answer turn (S1, send), and emits chunks while it does (S1, stream_message). Cancelling ctx
	// ends it within a second, and Send then returns ctx's error. An error that a client may read is a *apierr.Error,
	// with Retryable set where another try may help (S2, Retry Guidance); Outcome.Usage is valid beside an error as far
	// as it is known.
	//
	// A session that cannot be resumed is begun anew with the whole conversation, which the turn has.
	Send(ctx context.Context, turn Turn, emit Emit) (Outcome, error)

	// Stop ends what the session holds, such as a process (S1, stop). Its State stays good for another Start.
	Stop(ctx context.Context) error
}

// Send is the method of a [Session].
type Send func(ctx context.Context, turn Turn, emit Emit) (Outcome, error)

// Model is what answers each turn by itself, without a session: the turn has the whole conversation. [Stateless] makes a
// Backend of it.
type Model interface {
	// Run is [Session.Send], and safe for concurrent use.
	Run(ctx context.Context, turn Turn, emit Emit) (Outcome, error)
}

// Stateless is the backend of a model: to start a session of it does nothing, and to resume one is to send.
func Stateless(m Model) Backend { return stateless{m} }

type stateless struct{ model Model }

// Start implements [Backend].
func (s stateless) Start(context.Context, Start) (Session, error) { return turns{s.model.Run}, nil }

// Unwrap gives the model, for [Find].
func (s stateless) Unwrap() any { return s.model }

// turns is a session that holds nothing.
type turns struct{ send Send }

// Send implements [Session].
func (t turns) Send(ctx context.Context, turn Turn, emit Emit) (Outcome, error) {
	return t.send(ctx, turn, emit)
}

// Stop implements [Session].
func (turns) Stop(context.Context) error { return nil }

// Around is b, every turn of which passes through wrap: for whoever watches or checks the turns of any backend.
func Around(b Backend, wrap func(Send) Send) Backend { return around{b, wrap} }

type around struct {
	backend Backend
	wrap    func(Send) Send
}

// Start implements [Backend].
func (a around) Start(ctx context.Context, start Start) (Session, error) {
	s, err := a.backend.Start(ctx, start)
	if err != nil {
		return nil, err
	}
	return wrapped{Session: s, send: a.wrap(s.Send)}, nil
}

// Unwrap gives the backend, for [Find].
func (a around) Unwrap() any { return a.backend }

type wrapped struct {
	Session
	send Send
}

// Send implements [Session].
func (w wrapped) Send(ctx context.Context, turn Turn, emit Emit) (Outcome, error) {
	return w.send(ctx, turn, emit)
}

// State is what it takes to resume a session, on whatever machine knows it. A session emits it as soon as it is known and
// whenever it changes: whoever drives the session keeps the newest one for [Start].
type State struct {
	ID   string      // the agent's name of the session (S1, session_id); it may change from turn to turn
	Used event.Usage // what the agent has counted in all turns of the session until now
}

func (State) chunk() {}
