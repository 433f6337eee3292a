// Package aisdk is the backend for agents behind a route of the AI SDK, whose answer is a UI message stream. A turn is a POST of
// the conversation as UI messages.
//
// Read request.go for the body of a turn, reader.go for its stream, call.go for calls of tools, note.go for what goes back.
package aisdk

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/sse"
)

// Options configure the agent.
type Options struct {
	URL     string
	Headers map[string]string // sent with each request
	Query   map[string]string // added to URL
	APIKey  string            // sent as a bearer token; "" = none is sent
	KeyEnv  string            // the variable that holds it
	New     bool              // send only the messages that the agent has not received
	Quiet   time.Duration     // how long an answer may be silent; default 5 minutes
	Client  *http.Client      // default: one without a limit on the length of answers
	Retries int               // of requests that the agent did not begin; default 2, negative = none
	Settle  time.Duration     // how long a complete call waits for a request for its approval; then it counts as running. Default 100 ms
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

// Start implements [backend.Backend]. The id of the chat derives from our thread: an agent of agentbus must not take one thread for
// two.
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	chat := cmp.Or(start.State.ID, id.Derive("thr", "ai-sdk", start.ThreadID, start.AgentID))
	return &session{backend: b, state: backend.State{ID: chat, Used: start.State.Used}, resumed: start.State.ID != ""}, nil
}

// session is a chat of the agent.
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
	known := 0
	if s.backend.newOnly && s.resumed {
		known = min(turn.Known, len(turn.Messages))
	}
	c := newConversation(s.state.ID, turn.Messages)
	body, err := c.encode(turn, known)
	if err != nil {
		return backend.Outcome{}, err
	}
	s.resumed = true
	r := newReader(s.backend, turn, emit)
	r.outcome.Model = cmp.Or(turn.Model, turn.AgentID, "agent")
	err = s.answer(ctx, body, c.ids(), r)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return r.outcome, err
}

// errEarlier is the error for a stream of a message that an earlier turn has brought.
var errEarlier = errors.New("the stream is of an earlier message")

// answer reads the answer to a body. A later attempt of a turn first asks for the stream of the earlier one.
func (s *session) answer(ctx context.Context, body []byte, earlier []string, r *reader) error {
	if r.turn.Attempt > 1 {
		res, ok := s.running(ctx, r) //nolint:bodyclose // read closes it
		if ok {
			r.repeats(earlier)
			err := s.follow(ctx, res, r)
			if !errors.Is(err, errEarlier) {
				return err
			}
			r.begins()
		}
	}
	res, err := r.agent.Send(ctx, upstream.Request{Body: body, Header: http.Header{"Accept": {sse.ContentType}}}) //nolint:bodyclose // read closes it
	if err != nil {
		return err
	}
	return s.follow(ctx, res, r)
}

// maxIdle limits the connections in a row that bring nothing new.
const maxIdle = 3

// follow reads a stream to its end. When its connection is cut, it continues with the route that resumes it.
func (s *session) follow(ctx context.Context, res *http.Response, r *reader) error {
	for idle := 0; ; {
		before := r.news
		err := s.read(res, r)
		if idle++; r.news > before {
			idle = 0
		}
		if !errors.Is(err, backend.ErrCut) || r.discarded || ctx.Err() != nil || idle == maxIdle {
			return err
		}
		next, ok := s.running(ctx, r) //nolint:bodyclose // read closes it
		if !ok {
			return err
		}
		res = next
		r.rejoin()
	}
}

func (s *session) read(res *http.Response, r *reader) error {
	stream, err := r.agent.Stream(res)
	if err != nil {
		_ = res.Body.Close() // its content does not matter
		return err
	}
	ahead := stream.Ahead()
	defer ahead.Close()
	if !r.stated {
		r.stated = true
		if err := r.emit(s.state); err != nil {
			return err
		}
	}
	return r.read(ahead)
}

// running asks for the stream of the chat's running answer. An application may lack that route, or have no answer that runs.
func (s *session) running(ctx context.Context, r *reader) (*http.Response, bool) {
	res, err := r.agent.Send(ctx, upstream.Request{
		Method: http.MethodGet, Path: s.state.ID + "/stream", Header: http.Header{"Accept": {sse.ContentType}},
	})
	if err != nil {
		return nil, false
	}
	if !upstream.Streams(res) {
		_ = res.Body.Close() // there is no stream
		return nil, false
	}
	return res, true
}
