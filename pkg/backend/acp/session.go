package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/backend/internal/program"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/procgroup"
)

const (
	// polite is how long a program that was asked to end has for it before it is killed.
	polite = 300 * time.Millisecond
	// goodbye is how long a program has to end when its turn is over and its input has ended.
	goodbye = 500 * time.Millisecond
	// cancelTime is how long it has to end a turn that is cancelled.
	cancelTime = 100 * time.Millisecond
)

var (
	// errQuiet is why a program was stopped that said nothing.
	errQuiet = errors.New("the program did not get on")
	// errBudget is why a turn was cancelled that has reached its limit of cost.
	errBudget = errors.New("the turn has reached its limit of cost")
)

// session is a conversation with the program.
type session struct {
	program.Session

	backend *Backend
}

// Send implements [backend.Session].
func (s *session) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	rules, err := s.backend.rules(turn)
	if err != nil {
		return backend.Outcome{}, err
	}
	r := &run{
		session: s, turn: turn, emit: emit, inbox: make(chan func() error), over: make(chan struct{}),
		rules: rules, tools: map[string]*toolCall{},
	}
	return r.run(ctx)
}

// run is one run of the program. Its state belongs to the goroutine of Send: what the connection receives comes as work in
// inbox, in order.
type run struct {
	session *session
	turn    backend.Turn
	emit    backend.Emit
	conn    *protocol.Conn
	inbox   chan func() error
	over    chan struct{} // closed when inbox is no longer read
	running sync.WaitGroup
	rules   rules

	replaying bool // the program repeats a session: it is in the log already
	spoke     bool // the program has done something in this turn
	worked    bool // tools have ended since the newest step
	tools     map[string]*toolCall
	order     []string          // ids of tools, in their order
	cost      float64           // of the session, as the program has counted it
	asked     []permission.Call // that wait for the user
	model     string
	told      backend.State // the newest state that was emitted
	failed    error         // of emit
}

// run takes the program through a turn.
func (r *run) run(ctx context.Context) (backend.Outcome, error) {
	outcome, stderr, err := r.process(ctx)
	outcome.Model = cmp.Or(outcome.Model, r.model, r.session.backend.name())
	outcome.ID = r.session.State.ID
	switch {
	case r.failed != nil:
		return outcome, r.failed
	case ctx.Err() != nil:
		return outcome, ctx.Err()
	case errors.Is(err, errBudget):
		outcome.Finish, outcome.Usage = event.FinishBudget, r.used(nil, r.session.State.Used)
		return outcome, r.saveState()
	case err != nil:
		return outcome, r.explain(err, program.Reason(stderr))
	}
	return outcome, r.saveState()
}

// process starts the program, talks to it, and ends it with all that it has started.
func (r *run) process(ctx context.Context) (backend.Outcome, string, error) {
	s := r.session
	o := s.backend.options
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group, err := program.Group(ctx, s.Dir, s.Thread)
	if err != nil {
		return backend.Outcome{}, "", err
	}
	defer group.Kill()
	var stderr program.Tail
	cmd := exec.Command(s.Path, o.Args...) //nolint:gosec,noctx // the operator has chosen the program; the group is ended below
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = s.Dir, &stderr, polite
	cmd.Env = program.Environment(program.Variables{Pass: o.PassEnv, Clear: o.ClearEnv, Set: o.Env})
	group.Join(cmd)
	pipes, err := start(cmd)
	if err != nil {
		return backend.Outcome{}, "", fmt.Errorf("start %s: %w", s.Path, err)
	}
	r.conn = protocol.NewConn(pipes.out, pipes.in, r)
	ended := make(chan struct{})
	go func() { // ends with the program, which end sees to
		_ = cmd.Wait() // its standard error says why it failed
		close(ended)
	}()
	r.running.Go(func() {
		_ = r.conn.Serve(context.WithoutCancel(ctx)) // its end fails the dialog, which reports it
	})
	outcome, err := r.talk(ctx, cancel)
	regular := ctx.Err() == nil
	cancel(nil)
	close(r.over)
	end(group, pipes, ended, regular)
	r.running.Wait()
	return outcome, stderr.String(), err
}

// pipes are this process's ends of the program's standard streams.
type pipes struct{ in, out *os.File }

// start starts the program on pipes.
func start(cmd *exec.Cmd) (pipes, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return pipes{}, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return pipes{}, errors.Join(err, stdin.Close(), in.Close())
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	err = cmd.Start()
	_, _ = stdin.Close(), stdout.Close() // the program has its own
	if err != nil {
		_, _ = in.Close(), out.Close()
		return pipes{}, err
	}
	return pipes{in, out}, nil
}

// end ends the program: politely when its turn is over, and with its group in any case.
func end(group *procgroup.Group, p pipes, ended <-chan struct{}, regular bool) {
	if regular {
		_ = p.in.Close()
		wait(ended, goodbye)
	} else {
		wait(ended, cancelTime)
	}
	_ = group.Terminate() // fails when it has ended
	wait(ended, polite)
	group.Kill()
	<-ended
	_, _ = p.in.Close(), p.out.Close() // some child may have left the group and hold them
}

func wait(ended <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// talk holds the dialog with the program, and does the work that comes in meanwhile.
func (r *run) talk(ctx context.Context, cancel context.CancelCauseFunc) (backend.Outcome, error) {
	type result struct {
		outcome backend.Outcome
		err     error
	}
	finished := make(chan result, 1)
	r.running.Go(func() {
		outcome, err := r.dialog(ctx)
		finished <- result{outcome, err}
	})
	limit := r.session.backend.options.Quiet
	if r.session.State.ID != "" {
		limit = r.session.backend.options.QuietResume
	}
	quiet := time.AfterFunc(limit, func() { cancel(errQuiet) })
	defer quiet.Stop()
	for {
		select {
		case work := <-r.inbox:
			quiet.Stop()
			if err := work(); err != nil {
				r.cancelTurn()
				cancel(err)
				return backend.Outcome{}, err
			}
			quiet.Reset(limit)
		case f := <-finished:
			return f.outcome, cmp.Or(context.Cause(ctx), f.err)
		case <-ctx.Done():
			r.cancelTurn()
			return backend.Outcome{}, context.Cause(ctx)
		}
	}
}

// cancelTurn asks the program to end its turn. It does not wait: a program that does not read its input is ended.
func (r *run) cancelTurn() {
	id := r.session.State.ID
	if id == "" {
		return
	}
	r.running.Go(func() {
		_ = r.conn.Notify(protocol.MethodCancel, protocol.CancelNotification{SessionID: id}) // it may have ended
	})
}

// do does work in the goroutine of Send, and waits for it. It fails when the turn is over.
func (r *run) do(work func() error) error {
	done := make(chan error, 1)
	select {
	case r.inbox <- func() error {
		err := work()
		done <- err
		return err
	}:
		return <-done
	case <-r.over:
		return protocol.ErrClosed
	}
}

// say emits a chunk.
func (r *run) say(c backend.Chunk) error {
	r.failed = r.emit(c)
	return r.failed
}

// saveState emits the session's state, so that a later turn resumes it.
func (r *run) saveState() error {
	state := r.session.State
	if state.ID == "" || state == r.told {
		return nil
	}
	r.told = state
	return r.say(state)
}

// Request implements [protocol.Handler]: the program asks for a permission. It gets neither files nor terminals.
func (r *run) Request(method string, params json.RawMessage) func(context.Context) (any, error) {
	return func(context.Context) (any, error) {
		if method != protocol.MethodPermission {
			return nil, protocol.Errorf(protocol.CodeMethodNotFound, "%.100q is not offered: the agent has its own files and programs", method)
		}
		p, err := protocol.Decode[protocol.PermissionRequest](params)
		if err != nil {
			return nil, err
		}
		var outcome protocol.PermissionOutcome
		err = r.do(func() error {
			outcome, err = r.permit(p)
			return err
		})
		return protocol.PermissionResponse{Outcome: outcome}, err
	}
}

// Notification implements [protocol.Handler].
func (r *run) Notification(method string, params json.RawMessage) {
	if method != protocol.MethodUpdate {
		return
	}
	p, err := protocol.Decode[protocol.UpdateNotification](params)
	if err != nil {
		return // what cannot be read is left out: the turn continues
	}
	_ = r.do(func() error { return r.update(p.Update) }) // the goroutine of Send handles its errors
}

// passing are codes and words of temporary failures.
func passing() []string {
	return []string{"overloaded", "rate limit", "rate_limit", "too many requests", "timeout", "timed out", "connection", "network", "unavailable",
		"429", "500", "502", "503", "504", "529", "try again"}
}

// explain is a failure of the program as clients read it.
func (r *run) explain(err error, stderr string) error {
	name := r.session.backend.name()
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return f
	}
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		if e.Code == protocol.CodeAuthRequired {
			return apierr.Wrap(err, apierr.AgentError, "%s needs a login: log in on this machine, or set cli.auth of the agent: %s", name, oneLine(e.Message))
		}
		return failure(err, name, detail(e))
	}
	switch {
	case errors.Is(err, errQuiet):
		return retryable(apierr.Wrap(err, apierr.AgentError, "%s said nothing for too long and was stopped%s; try again", name, because(stderr)))
	case errors.Is(err, procgroup.ErrLocked):
		return retryable(apierr.Wrap(err, apierr.AgentError, "another run of %s works in the same session and folder; try again", name))
	case errors.Is(err, protocol.ErrClosed):
		return retryable(apierr.Wrap(err, apierr.AgentError, "%s ended in the middle of its turn%s; try again", name, because(stderr)))
	default:
		return failure(err, name, err.Error())
	}
}
