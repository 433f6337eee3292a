// Package langgraph is the backend for agents of a remote LangGraph Agent Server. A session is a thread of the server, and a turn
// is a run on it, which has a stream that can be joined again.
//
// Read run.go for the life of a run, request.go for its input, reader.go and message.go for its events, interrupt.go for its
// interrupts.
package langgraph

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/id"
)

// Options configure the agent.
type Options struct {
	URL       string // of the server
	Assistant string // the id of an assistant, or of a graph
	Headers   map[string]string
	Query     map[string]string
	APIKey    string // sent in the header X-Api-Key; "" = none is sent
	KeyEnv    string // the variable that holds it
	Quiet     time.Duration
	Client    *http.Client  // default: one without a limit on the length of runs
	Retries   int           // of requests that the server did not begin; default 2, negative = none
	Joins     int           // how often a cut stream is joined again without a new event; default 5, negative = never
	Settle    time.Duration // how long a complete call waits for an interrupt; then it counts as running. Default 300 ms
}

// Backend is one assistant of a server. It is safe for concurrent use.
type Backend struct {
	agent     upstream.Agent
	assistant string
	settle    time.Duration
	joins     int
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Transporter = (*Backend)(nil)
	_ backend.Prober      = (*Backend)(nil)
)

// New returns the backend of an assistant.
func New(o Options) *Backend {
	return &Backend{
		assistant: o.Assistant, settle: cmp.Or(o.Settle, 300*time.Millisecond), joins: max(0, cmp.Or(o.Joins, 5)),
		agent: upstream.Agent{
			URL: o.URL, Headers: o.Headers, Query: o.Query, Key: o.APIKey, KeyHeader: "X-Api-Key", KeyEnv: o.KeyEnv, Quiet: o.Quiet,
			Client: o.Client, Retries: o.Retries,
		}.WithDefaults(),
	}
}

// Transport implements [backend.Transporter].
func (*Backend) Transport() backend.Transport { return backend.Remote }

// Probe implements [backend.Prober]: it asks the server for its assistants.
func (b *Backend) Probe(ctx context.Context) error {
	names, err := server{b.agent}.assistants(ctx)
	if err != nil {
		return err
	}
	return b.check(names)
}

// Start implements [backend.Backend]. The server's thread derives from ours, so that a runner that takes a request over finds it.
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	thread := cmp.Or(start.State.ID, id.DeriveUUID("langgraph", start.ThreadID, start.AgentID))
	return &session{backend: b, state: backend.State{ID: thread, Used: start.State.Used}, resumed: start.State.ID != ""}, nil
}

// session is a thread of the server.
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
	if err := emit(s.state); err != nil {
		return backend.Outcome{}, err
	}
	r := &run{
		backend: s.backend, server: server{s.backend.agent}, thread: s.state.ID, mark: mark(turn), turn: turn,
		reader: newReader(s.backend, turn, emit),
	}
	known := 0
	if s.resumed {
		known = min(turn.Known, len(turn.Messages))
	}
	s.resumed = true
	err := r.do(ctx, known)
	if ctx.Err() != nil {
		r.leave(ctx)
		err = ctx.Err()
	}
	return r.reader.result(), err
}
