package backend

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
)

// Backend produces the turns of an agent.
type Backend interface {
	// Start opens a session: a new one, or the one of start.State (agentic, start and resume). The first turn, and not
	// Start, may report that the session cannot be resumed. Start is safe for concurrent use.
	Start(ctx context.Context, start Start) (Session, error)
}

// Start is the parameters of a session (agentic, start_opts).
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
	// Send runs a turn (agentic, send) and emits its chunks (agentic, stream_message). After ctx is cancelled it
	// returns ctx's error within a second. An error that a client may read is an *apierr.Error, with Retryable set if a
	// retry may succeed (agent event protocol, Retry Guidance); Outcome.Usage is valid with an error too, as far as it
	// is known.
	//
	// If the session cannot be resumed, Send starts a new one with the whole conversation of the turn.
	Send(ctx context.Context, turn Turn, emit Emit) (Outcome, error)

	// Stop releases the resources of the session, such as a process (agentic, stop). Its State remains valid for
	// another Start.
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

// Around returns a backend that passes every turn of b through wrap, for observing or checking the turns of any
// backend.
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

// State is the data that resumes a session, on any machine that has it. A session emits it as soon as it is known and
// after each change; the caller keeps the newest one for [Start].
type State struct {
	ID   string      // the agent's id of the session (agentic, session_id); it may change from turn to turn
	Used event.Usage // what the agent has counted in all turns of the session until now
}

func (State) chunk() {}
