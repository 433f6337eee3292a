// Package remote is the backend for remote agents (TARS hub protocol): a turn is a task that the hub assigns to the
// agent, and the events that the agent-server streams are the chunks of the turn.
//
// The hub assigns tasks and counts costs; the stream comes from the agent-server itself. A task survives its runner:
// its idempotency key is derived from the request, and the session's [backend.State] has the position in its events, so
// that another runner continues there.
package remote

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/retry"
)

// Hub manages the remote agents. It is implemented by hubapi.Client.
type Hub interface {
	AssignTask(ctx context.Context, a hubapi.Assignment) (hubapi.Task, error)
	CancelTask(ctx context.Context, r hubapi.TaskRef) (hubapi.Cancelled, error)
	AnswerTask(ctx context.Context, a hubapi.Answer) (hubapi.Task, error)
	Connect(ctx context.Context, r hubapi.AgentRef) (hubapi.Connection, error)
}

// Options are what a backend works with. Every member is needed but Agent and Defaults.
type Options struct {
	Hub    Hub
	HTTP   *http.Client // reaches agent servers
	Tenant string       // whose agents these are
	Agent  string       // id of the agent at the hub; "" = the one that the session names
	// Defaults are for what a request leaves out.
	Defaults Settings
	// Ends reports whether the cause of a context's cancellation ends the request. After any other cause the task
	// continues, for the runner that takes the request over.
	Ends func(cause error) bool
}

// Backend is the remote agents of a tenant, or one of them.
type Backend struct{ options Options }

var _ backend.Backend = (*Backend)(nil)

// New returns a backend.
func New(o Options) *Backend { return &Backend{o} }

// Transport implements [backend.Transporter].
func (*Backend) Transport() backend.Transport { return backend.Remote }

// Start implements [backend.Backend].
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	p := parsePlace(start.State)
	if p.request != "" && p.request != start.RequestID && p.wait != waiting {
		p = place{session: p.session} // another request gave the task, and ended before the task did
	}
	p.request = start.RequestID
	s := &session{Options: b.options, start: start, place: p}
	s.Agent = cmp.Or(s.Agent, start.AgentID)
	return s, nil
}

// session implements [backend.Session].
type session struct {
	Options
	start  backend.Start
	place  place
	client *remoteagent.Client // of the newest connection; nil = none
	reply  remoteagent.Answer  // that the task does not have yet; empty = none
}

// Stop implements [backend.Session]: nothing is held between two turns.
func (*session) Stop(context.Context) error { return nil }

// maxPrompt limits a conversation in a task, in bytes: the hub accepts at most 256 KiB.
const maxPrompt = 240 << 10

const (
	cancelWait = 5 * time.Second
	assignWait = time.Minute // for one answer of the hub, which asks the agent
	retryPause = time.Second
)

// Send implements [backend.Session].
func (s *session) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if s.place.wait != "" {
		if err := s.resume(ctx, turn, emit); err != nil {
			return backend.Outcome{}, s.left(ctx, err)
		}
	}
	if s.place.task == "" {
		if err := s.assign(ctx, turn, emit); err != nil {
			return backend.Outcome{}, s.left(ctx, err)
		}
	}
	t := newTurn(s.place, s.start.Running, emit)
	s.start.Running = nil // of the first turn
	outcome, err := s.follow(ctx, t, title(turn.Messages))
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
		s.cancel(cancelCtx)
	}
	return ctx.Err()
}

// cancel tries to stop the task at once, by the hub and by the agent-server, since either may be down. An error is
// ignored: the runner has the hub cancel the tasks that the log shows as unfinished.
func (s *session) cancel(ctx context.Context) {
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		_, _ = s.Hub.CancelTask(ctx, hubapi.TaskRef{Tenant: s.Tenant, AgentID: s.Agent, TaskID: s.place.task})
	})
	if s.client != nil {
		both.Go(func() { _, _ = s.client.Cancel(ctx, s.place.task) })
	}
}

// assign assigns the task to the agent. If the agent has lost the session, assign starts a new one.
// An assignment that another runner has begun is repeated unchanged.
func (s *session) assign(ctx context.Context, turn backend.Turn, emit backend.Emit) error {
	known := turn.Known
	if s.place.asked != "" {
		known = s.place.known
	}
	if s.place.session == "" {
		known = 0
	}
	t, err := s.give(ctx, turn, min(known, len(turn.Messages)), emit)
	if apierr.CodeOf(err) == apierr.RequestNotFound && s.place.session != "" {
		s.place = place{request: s.start.RequestID}
		t, err = s.give(ctx, turn, 0, emit)
	}
	if err != nil {
		return err
	}
	s.place = place{session: cmp.Or(t.SessionID, s.place.session), task: t.TaskID, request: s.start.RequestID}
	return emit(s.place.state())
}

// give has the hub assign a task with all messages but the first known ones. The log names the assignment before the hub is
// asked: a request that ends without the answer still has the task cancelled, by its key, and a runner that takes the
// request over asks with the same key. A key names a turn, not a prompt: two turns may have the same prompt.
func (s *session) give(ctx context.Context, turn backend.Turn, known int, emit backend.Emit) (t hubapi.Task, err error) {
	set, err := s.Defaults.of(turn)
	if err != nil {
		return t, err
	}
	if s.place.asked == "" {
		s.place.known, s.place.request = known, s.start.RequestID
		s.place.asked = id.Derive("turn", turn.RequestID, s.place.session, strconv.Itoa(known), strconv.Itoa(len(turn.Messages)))
		if err := emit(s.place.state()); err != nil {
			return t, err
		}
	}
	a := hubapi.Assignment{
		Tenant: s.Tenant, AgentID: s.Agent, Task: prompt.Of(turn.Messages[known:], maxPrompt), SystemPrompt: turn.System,
		MaxTurns: turn.Limits.Turns, MaxBudgetUSD: max(0, turn.Limits.CostUSD), ResumeSession: s.place.session, Key: s.place.asked,
		PermissionMode: set.PermissionMode, AllowedTools: set.AllowedTools, Cwd: set.Cwd, Model: turn.Model,
		Approvals: set.Approvals,
	}
	err = s.repeatWhileSilent(ctx, func() error {
		// A request that is aborted meanwhile must still learn of the task, to cancel it.
		asking, done := context.WithTimeout(context.WithoutCancel(ctx), assignWait)
		defer done()
		t, err = s.Hub.AssignTask(asking, a)
		return err
	})
	return t, err
}

// title names the task as its user does: by what the user said last.
func title(messages []backend.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role == backend.User {
			return hubapi.Title(prompt.Of([]backend.Message{m}, maxPrompt))
		}
	}
	return "its task"
}

// repeatWhileSilent repeats ask until the hub answers or ctx is done: another runner would have the same hub.
func (*session) repeatWhileSilent(ctx context.Context, ask func() error) error {
	return retry.Policy{
		First: retryPause,
		Final: func(err error) bool { return !errors.Is(err, hubapi.ErrSilent) },
	}.Do(ctx, func(context.Context) error { return ask() })
}

// follow emits what the task does until it has ended. While the agent is away it waits, and says so.
func (s *session) follow(ctx context.Context, t *turn, task string) (backend.Outcome, error) {
	away := false
	for ctx.Err() == nil {
		online, err := s.connect(ctx, away)
		if err != nil {
			return backend.Outcome{}, err
		}
		if online && len(s.reply.ActionResults) > 0 {
			if online, err = s.answer(ctx, t); err != nil {
				return t.outcome, err
			}
		}
		if online {
			before := t.heard
			ended, err := s.stream(ctx, t, &away)
			if ended || err != nil && !t.survives(err) {
				return t.outcome, err
			}
			online = t.heard > before && !errors.Is(err, errOffline)
		}
		if !online && !away {
			away = true
			if err := t.warn(hubapi.Offline(s.Agent, task)); err != nil {
				return t.outcome, err
			}
		}
		sleep(ctx, retryPause)
	}
	return t.outcome, ctx.Err()
}

// errOffline ends a connection to an agent that the hub does not reach any more.
var errOffline = errors.New("the hub says that the agent is offline")

// stream follows one connection to the task's events, until the hub says that the agent is offline: a machine that sleeps
// or has left the network leaves the connection open.
func (s *session) stream(ctx context.Context, t *turn, away *bool) (ended bool, err error) {
	ctx, cut := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cut(nil)
	watch.Go(func() { s.watch(ctx, cut) })
	if *away {
		*away = false
		if err := t.warn("Agent [" + s.Agent + "] is back."); err != nil {
			return false, err
		}
	}
	for e, err := range s.client.Stream(ctx, t.place.task, t.heard) {
		if err != nil {
			return false, err
		}
		if ended, err := t.take(e); ended || err != nil {
			return ended, err
		}
	}
	return false, nil
}

const (
	streamAttempts = 2 // in a row, before the agent counts as away
	// watchEvery is how often the hub is asked whether it reaches the agent, and healthWait how long the agent may take
	// to contradict it.
	watchEvery = 2 * time.Second
	healthWait = 2 * time.Second
)

// watch cuts the connection once the hub says that the agent is offline and the agent does not answer here either. While
// the hub does not answer, the connection stays.
func (s *session) watch(ctx context.Context, cut context.CancelCauseFunc) {
	for sleep(ctx, watchEvery) {
		c, err := s.Hub.Connect(ctx, hubapi.AgentRef{Tenant: s.Tenant, AgentID: s.Agent})
		if err == nil && !c.Online && !healthy(ctx, s.client) {
			cut(errOffline)
			return
		}
	}
}

// connect makes the client for a connection, and reports whether the agent is there. Of one that was away the hub may not
// have noticed that yet, so the agent itself must answer.
func (s *session) connect(ctx context.Context, away bool) (online bool, err error) {
	var c hubapi.Connection
	err = s.repeatWhileSilent(ctx, func() (err error) {
		c, err = s.Hub.Connect(ctx, hubapi.AgentRef{Tenant: s.Tenant, AgentID: s.Agent})
		return err
	})
	if err != nil {
		return false, err
	}
	client := remoteagent.NewClient(c.URL, c.Key)
	client.HTTP, client.Attempts = s.HTTP, streamAttempts
	s.client = client
	return c.Online && !away || healthy(ctx, client), nil
}

func healthy(ctx context.Context, client *remoteagent.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	_, err := client.Health(ctx)
	return err == nil
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
