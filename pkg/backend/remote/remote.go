// Package remote makes an agent on another machine (S3) an agent like any other: a turn is a task that the hub gives to
// it, and what its agent server streams are the chunks of the turn.
//
// The hub says who gets what and counts the costs; the stream comes from the agent server itself. A task survives whoever
// follows it: its name is derived from the request, and the session's [backend.State] says how far its events were heard,
// so that another runner goes on where the first one stopped.
package remote

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/hub"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/spoke"
)

// Hub is who knows the remote agents. A hub.Client is one.
type Hub interface {
	AssignTask(ctx context.Context, a hub.Assignment) (hub.Task, error)
	CancelTask(ctx context.Context, r hub.TaskRef) (hub.Cancelled, error)
	Connect(ctx context.Context, r hub.AgentRef) (hub.Connection, error)
}

// Options are what a backend works with. Every member is needed.
type Options struct {
	Hub    Hub
	HTTP   *http.Client // reaches agent servers
	Tenant string       // whose agents these are
	// Ends reports whether the cause of a context's end ends the request too. Any other leaves the task to whoever takes
	// the request over.
	Ends func(cause error) bool
}

// Backend is the remote agents of a tenant; which one, the session says.
type Backend struct{ options Options }

var _ backend.Backend = (*Backend)(nil)

// New returns a backend.
func New(o Options) *Backend { return &Backend{o} }

// Transport implements [backend.Transporter].
func (*Backend) Transport() backend.Transport { return backend.Remote }

// Start implements [backend.Backend].
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	p := parsePlace(start.State)
	if p.request != "" && p.request != start.RequestID {
		p = place{session: p.session} // another request gave the task, and ended before the task did
	}
	p.request = start.RequestID
	return &session{Options: b.options, start: start, place: p}, nil
}

// session implements [backend.Session].
type session struct {
	Options
	start backend.Start
	place place
}

// Stop implements [backend.Session]: nothing is held between two turns.
func (*session) Stop(context.Context) error { return nil }

// maxPrompt bounds a conversation that is told in a task, in bytes: the hub takes no longer ones than 256 KiB.
const maxPrompt = 240 << 10

const (
	cancelWait = 5 * time.Second
	hubWait    = 30 * time.Second // for a hub that is being started again
	assignWait = 2 * hubWait
	retryPause = time.Second
)

// Send implements [backend.Session].
func (s *session) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if s.place.task == "" {
		if err := s.assign(ctx, turn, emit); err != nil {
			return backend.Outcome{}, s.left(ctx, err)
		}
	}
	t := newTurn(s.place, s.start.Running, emit)
	s.start.Running = nil // of the first turn
	outcome, err := s.follow(ctx, t)
	s.place = t.place
	return outcome, s.left(ctx, err)
}

// left settles a task that is left before its end: it is cancelled where the request ends with it.
func (s *session) left(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if s.place.task != "" && s.Ends(context.Cause(ctx)) {
		cancelCtx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
		defer done()
		// The hub tells an agent that cannot be reached now when it is back.
		_, _ = s.Hub.CancelTask(cancelCtx, hub.TaskRef{Tenant: s.Tenant, AgentID: s.start.AgentID, TaskID: s.place.task})
	}
	return ctx.Err()
}

// assign gives the task to the agent. A session that the agent does not know any more is begun anew.
func (s *session) assign(ctx context.Context, turn backend.Turn, emit backend.Emit) error {
	known := min(turn.Known, len(turn.Messages))
	if s.place.session == "" {
		known = 0
	}
	t, err := s.give(ctx, turn, turn.Messages[known:])
	if fault.CodeOf(err) == fault.RequestNotFound && s.place.session != "" {
		s.place = place{}
		t, err = s.give(ctx, turn, turn.Messages)
	}
	if err != nil {
		return err
	}
	s.place = place{session: cmp.Or(t.SessionID, s.place.session), task: t.TaskID, request: s.start.RequestID}
	return emit(s.place.state())
}

func (s *session) give(ctx context.Context, turn backend.Turn, messages []backend.Message) (t hub.Task, err error) {
	task := prompt.Of(messages, maxPrompt)
	a := hub.Assignment{
		Tenant: s.Tenant, AgentID: s.start.AgentID, Task: task, SystemPrompt: turn.System, MaxTurns: turn.Limits.Turns,
		MaxBudgetUSD: max(0, turn.Limits.CostUSD), ResumeSession: s.place.session,
		Key: id.Derive("turn", turn.RequestID, s.place.session, task),
	}
	// A request that is aborted meanwhile must still learn of the task, to cancel it.
	asking, done := context.WithTimeout(context.WithoutCancel(ctx), assignWait)
	defer done()
	err = s.patiently(ctx, func() error {
		t, err = s.Hub.AssignTask(asking, a)
		return err
	})
	return t, err
}

// patiently asks again while the hub does not answer.
func (s *session) patiently(ctx context.Context, ask func() error) error {
	late := time.Now().Add(hubWait)
	for {
		err := ask()
		silent := fault.CodeOf(err) == fault.Unavailable && errors.Is(err, hub.ErrSilent)
		if !silent || time.Now().After(late) || !sleep(ctx, retryPause) {
			return err
		}
	}
}

// follow emits what the task does until it has ended. While the agent is away it waits, and says so.
func (s *session) follow(ctx context.Context, t *turn) (backend.Outcome, error) {
	away := false
	for ctx.Err() == nil {
		client, err := s.connect(ctx)
		if err != nil {
			return backend.Outcome{}, err
		}
		before := t.heard
		ended, err := s.stream(ctx, client, t, &away)
		if ended || err != nil && !t.survives(err) {
			return t.outcome, err
		}
		if before == t.heard && !away {
			away = true
			if err := t.warn(hub.Offline(s.start.AgentID, "task "+t.place.task)); err != nil {
				return t.outcome, err
			}
		}
		sleep(ctx, retryPause)
	}
	return t.outcome, ctx.Err()
}

// stream follows one connection to the task's events.
func (s *session) stream(ctx context.Context, client *spoke.Client, t *turn, away *bool) (ended bool, err error) {
	for e, err := range client.Stream(ctx, t.place.task, t.heard) {
		if err != nil {
			return false, err
		}
		if *away {
			*away = false
			if err := t.warn("Agent [" + s.start.AgentID + "] is back."); err != nil {
				return false, err
			}
		}
		if ended, err := t.take(e); ended || err != nil {
			return ended, err
		}
	}
	return false, nil
}

const streamAttempts = 2 // in a row, before the agent counts as away

func (s *session) connect(ctx context.Context) (*spoke.Client, error) {
	var c hub.Connection
	err := s.patiently(ctx, func() (err error) {
		c, err = s.Hub.Connect(ctx, hub.AgentRef{Tenant: s.Tenant, AgentID: s.start.AgentID})
		return err
	})
	if err != nil {
		return nil, err
	}
	client := spoke.NewClient(c.URL, c.Key)
	client.HTTP, client.Attempts = s.HTTP, streamAttempts
	return client, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
