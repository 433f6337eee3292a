// Package a2a is the backend for agents that another server serves as A2A 1.0, by JSON-RPC or HTTP+JSON. A turn is a message, and
// the task that it starts or continues.
//
// Read client.go for the card and the calls, request.go for the message, reader.go for the task.
package a2a

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
)

// Options configure the agent.
type Options struct {
	URL     string            // of the agent card, or of what is before /.well-known/agent-card.json
	Headers map[string]string // sent with each request
	Query   map[string]string // added to each address
	APIKey  string            // sent as a bearer token; "" = none is sent
	KeyEnv  string            // the variable that holds it
	Quiet   time.Duration     // how long an answer may be silent; default 5 minutes
	Client  *http.Client      // default: one without a limit on the length of answers
	Retries int               // of requests that the agent did not begin; default 2, negative = none
}

// Backend is one agent. It is safe for concurrent use.
type Backend struct {
	agent upstream.Agent

	mu      sync.Mutex
	peer    *peer
	fetched time.Time
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Transporter = (*Backend)(nil)
)

// New returns the backend of an agent. Its card is fetched with the first turn.
func New(o Options) *Backend {
	return &Backend{agent: upstream.Agent{
		URL: o.URL, Headers: o.Headers, Query: o.Query, Key: o.APIKey, KeyEnv: o.KeyEnv, Quiet: o.Quiet, Client: o.Client, Retries: o.Retries,
	}.WithDefaults()}
}

// Transport implements [backend.Transporter].
func (*Backend) Transport() backend.Transport { return backend.Remote }

// Start implements [backend.Backend].
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	return &session{backend: b, state: start.State}, nil
}

// find returns the interface of the agent, from its card.
func (b *Backend) find(ctx context.Context, name string) (*peer, error) {
	b.mu.Lock()
	p := b.peer
	if time.Since(b.fetched) > cardTTL {
		p = nil
	}
	b.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := discover(ctx, b.agent.Named(name))
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peer, b.fetched = p, time.Now()
	return p, nil
}

// session is a context of the agent.
type session struct {
	backend *Backend
	state   backend.State
}

// Stop implements [backend.Session].
func (*session) Stop(context.Context) error { return nil }

// Send implements [backend.Session].
func (s *session) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	found, err := s.backend.find(ctx, turn.AgentID)
	if err != nil {
		return backend.Outcome{}, cmp.Or(ctx.Err(), err)
	}
	p := found.named(turn.AgentID)
	at := placeOf(s.state.ID)
	r := newReader(p.agent, turn, at.Context, emit)
	r.used = s.state.Used
	r.outcome.Model = cmp.Or(turn.Model, turn.AgentID, "agent")
	err = s.run(ctx, p, at, r)
	if r.place.Context != "" {
		s.state.ID = r.place.String()
	}
	if ctx.Err() != nil {
		s.left(ctx, p, r.place.Task)
		return r.outcome, ctx.Err()
	}
	if err == nil {
		s.state.ID = place{Context: r.place.Context}.String()
		r.outcome.State = s.state
	}
	return r.outcome, err
}

// run sends the message of a turn and reads its task. A later attempt first asks for the task of the earlier one.
func (s *session) run(ctx context.Context, p *peer, at place, r *reader) error {
	if r.turn.Attempt > 1 && at.Task != "" {
		r.place = at
		err := s.rejoin(ctx, p, r)
		if !errors.Is(err, errLost) {
			return s.follow(ctx, p, r, err)
		}
		r.place.Task = ""
	}
	body, err := compose(r.turn, at.Context)
	if err != nil {
		return err
	}
	method := sendStream
	if !p.streaming {
		method = sendMessage
	}
	return s.follow(ctx, p, r, s.read(ctx, p, r, method, body))
}

// errLost is the error for a task of which the agent does not give the rest.
var errLost = errors.New("the agent does not give the rest of the task")

// maxIdle limits the connections in a row that bring nothing new.
const maxIdle = 3

// follow continues a task whose connection was cut, with err.
func (s *session) follow(ctx context.Context, p *peer, r *reader, err error) error {
	for idle := 0; errors.Is(err, backend.ErrCut) && r.place.Task != "" && !r.discarded && idle < maxIdle && ctx.Err() == nil; idle++ {
		before := r.news
		next := s.rejoin(ctx, p, r)
		if errors.Is(next, errLost) {
			return err
		}
		if err = next; r.news > before {
			idle = -1
		}
	}
	return err
}

// rejoin subscribes to the task, or gets it if it has ended.
func (s *session) rejoin(ctx context.Context, p *peer, r *reader) error {
	subscribed := r.updates
	err := s.read(ctx, p, r, subscribe, params{ID: r.place.Task})
	if err == nil || r.updates > subscribed || ctx.Err() != nil {
		return err
	}
	t, getErr := p.task(ctx, r.place.Task)
	if getErr != nil || t.ID != r.place.Task {
		return errLost
	}
	ended, err := r.take(update{Task: t})
	if err == nil && !ended {
		return errLost
	}
	return err
}

// read calls a method and reads the updates of its response until the turn ends.
func (s *session) read(ctx context.Context, p *peer, r *reader, method string, with params) error {
	res, err := p.call(ctx, method, with)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it was read to its end, or it no longer matters
	next, err := p.updates(res)
	if err != nil {
		return err
	}
	for {
		u, err := next()
		if err != nil {
			return err
		}
		r.updates++
		if ended, err := r.take(u); ended || err != nil {
			return err
		}
	}
}

// cancelWait limits the call that cancels a task.
const cancelWait = 400 * time.Millisecond

// left cancels the task of a turn that is left because its request ends. After any other cause another runner continues it.
func (s *session) left(ctx context.Context, p *peer, taskID string) {
	if taskID == "" || !errors.Is(context.Cause(ctx), backend.ErrEnds) {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	defer done()
	res, err := p.call(ctx, cancelTask, params{ID: taskID})
	if err == nil {
		_ = res.Body.Close() // the request has ended, whatever the agent says
	}
}
