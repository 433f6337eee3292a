// Package agui is the backend for agents that another server serves as AG-UI 1.0. A turn is a run: a POST of the conversation,
// and a stream of events.
//
// Read request.go for the input of a run, reader.go and finish.go for its events, interrupt.go for its interrupts.
package agui

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/sse"
)

// Options configure the agent.
type Options struct {
	URL     string
	Headers map[string]string // sent with each run
	Query   map[string]string // added to URL
	APIKey  string            // sent as a bearer token; "" = none is sent
	KeyEnv  string            // the variable that holds it
	New     bool              // send only the messages that the agent has not received
	Quiet   time.Duration     // how long a run may be silent; default 5 minutes
	Client  *http.Client      // default: one without a limit on the length of runs
	Retries int               // of runs that the agent did not begin; default 2, negative = none
	Settle  time.Duration     // how long a complete call waits for an end of the run that interrupts it; then it counts as running. Default 100 ms
}

// Backend is one agent. It is safe for concurrent use.
type Backend struct {
	agent   upstream.Agent
	newOnly bool
	settle  time.Duration
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Transporter = (*Backend)(nil)
)

// New returns the backend of an agent.
func New(o Options) *Backend {
	return &Backend{newOnly: o.New, settle: cmp.Or(o.Settle, 100*time.Millisecond), agent: upstream.Agent{
		URL: o.URL, Headers: o.Headers, Query: o.Query, Key: o.APIKey, KeyEnv: o.KeyEnv, Quiet: o.Quiet, Client: o.Client, Retries: o.Retries,
	}.WithDefaults()}
}

// Transport implements [backend.Transporter].
func (*Backend) Transport() backend.Transport { return backend.Remote }

// Start implements [backend.Backend]. The agent's thread derives from ours: an agent of agentbus must not take one thread for two.
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	thread := cmp.Or(start.State.ID, id.Derive("thr", "agui", start.ThreadID, start.AgentID))
	return &session{backend: b, state: backend.State{ID: thread, Used: start.State.Used}, resumed: start.State.ID != ""}, nil
}

// session is a thread of the agent.
type session struct {
	backend *Backend
	state   backend.State
	resumed bool
}

// Stop implements [backend.Session].
func (*session) Stop(context.Context) error { return nil }

// Send implements [backend.Session].
func (s *session) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	run := input{
		ThreadID: s.state.ID, ProtocolVersion: "1.0",
		RunID: id.Derive("run", turn.RequestID, strconv.Itoa(len(turn.Messages)), strconv.Itoa(turn.Attempt)),
	}
	known := 0
	if s.backend.newOnly && s.resumed {
		known = min(turn.Known, len(turn.Messages))
	}
	body, err := run.encode(turn, known)
	if err != nil {
		return backend.Outcome{}, err
	}
	agent := s.backend.agent.Named(turn.AgentID)
	res, err := agent.Send(ctx, upstream.Request{Body: body, Header: http.Header{"Accept": {sse.ContentType}}})
	if err != nil {
		return backend.Outcome{}, err
	}
	stream, err := agent.Stream(res)
	if err != nil {
		_ = res.Body.Close() // its content does not matter
		return backend.Outcome{}, err
	}
	ahead := stream.Ahead()
	defer ahead.Close()
	s.resumed = true
	r := newReader(s.backend, turn, emit)
	r.outcome.Model = cmp.Or(turn.Model, turn.AgentID, "agent")
	if err := emit(s.state); err != nil {
		return r.outcome, err
	}
	err = r.read(ahead)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return r.outcome, err
}
