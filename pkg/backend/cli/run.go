package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/cli/wire"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/procgroup"
)

// errTurns stops a program without an option for turns after its last turn.
var errTurns = errors.New("the program has taken all its turns")

// run is one run of the program.
type run struct {
	session *session
	emit    backend.Emit
	model   string // that is asked
	limits  backend.Limits
	args    []string
	stdin   string
	quiet   time.Duration
	resumes bool
	decoder wire.Decoder
	dialog  *dialog // nil = the program does not ask

	steps  int
	spoke  bool          // it has emitted output
	told   backend.State // the newest state that was emitted
	gone   bool          // it failed because the session does not exist
	failed error         // of emit
}

// run takes the program to its end.
func (r *run) run(ctx context.Context) (backend.Outcome, error) {
	s := r.session
	o := s.backend.options
	c := command{
		path: s.Path, args: r.args, dir: s.Dir, env: environment(s.backend.program, o), stdin: strings.NewReader(r.stdin), quiet: r.quiet,
		alone: []string{s.Dir, s.Thread},
	}
	if r.dialog != nil {
		c.stdin, c.over = r.dialog, r.dialog.close
	}
	end, err := c.run(ctx, r.read)
	if err == nil && r.failed == nil {
		err = r.take(r.decoder.Close())
	}
	report := r.decoder.Report()
	outcome := backend.Outcome{
		Finish: report.Finish, Model: cmp.Or(report.Model, r.model, s.backend.program.name), ID: report.SessionID, Usage: s.used(report),
	}
	if r.failed != nil {
		return outcome, r.failed
	}
	if ctx.Err() != nil {
		return outcome, ctx.Err()
	}
	if errors.Is(err, errTurns) {
		outcome.Finish = event.FinishMaxTurns
		return outcome, r.saveState()
	}
	if err == nil && r.dialog.waits() {
		outcome.Finish = event.FinishToolCalls
		return outcome, cmp.Or(r.saveState(), permission.Pose(r.say, r.dialog.asked))
	}
	if err = r.verdict(end, err, report); err != nil {
		return outcome, err
	}
	return outcome, r.saveState()
}

// read takes what the program has printed, and reports whether it got on.
func (r *run) read(p []byte) (bool, error) {
	err := r.take(r.decoder.Write(p))
	if err == nil && r.dialog != nil {
		err = r.dialog.answer(r.decoder)
	}
	return r.decoder.Report().Stalled == "", err
}

func (r *run) take(chunks []backend.Chunk, err error) error {
	if id := r.decoder.Report().SessionID; id != "" && id != r.session.State.ID && !r.decoder.Report().Missing {
		r.session.State.ID = id
	}
	for _, c := range chunks {
		if _, warns := c.(backend.Warning); !warns {
			r.spoke = true
		}
		if r.spoke { // before its first output, it may still report that the session does not exist
			if err := r.saveState(); err != nil {
				return err
			}
		}
		if err := r.say(r.dialog.ended(c)); err != nil {
			return err
		}
		if _, ok := c.(backend.Step); !ok {
			continue
		}
		r.steps++
		if !r.session.backend.program.limits && r.limits.Turns > 0 && r.steps >= r.limits.Turns {
			return errTurns
		}
	}
	return err
}

// saveState emits the session's state when it has changed.
func (r *run) saveState() error {
	state := r.session.State
	if state == r.told || state.ID == "" || r.session.backend.options.SessionMode == SessionNone {
		return nil
	}
	r.told = state
	return r.say(state)
}

// say emits a chunk.
func (r *run) say(c backend.Chunk) error {
	r.failed = r.emit(c)
	return r.failed
}

// verdict is why the run gave no answer; nil when it did.
func (r *run) verdict(end ending, err error, report wire.Report) error {
	name := r.session.backend.program.name
	stderr := end.says()
	switch {
	case errors.Is(err, errQuiet):
		return retryable(apierr.Wrap(end, apierr.AgentError, "%s did not get on for %s and was stopped%s; try again",
			name, r.quiet, because(cmp.Or(report.Stalled, stderr))))
	case errors.Is(err, procgroup.ErrLocked):
		return retryable(apierr.Wrap(err, apierr.AgentError, "another run of %s works in the same session and folder; try again", name))
	case err != nil:
		return apierr.Wrap(err, apierr.AgentError, "%s could not be run or understood%s", name, because(err.Error()))
	case report.Failure != "":
		r.gone = r.resumes && report.Missing
		return failure(name, report.Failure, end)
	case end.err != nil && report.Finish != event.FinishMaxTurns && report.Finish != event.FinishBudget:
		r.gone = r.resumes && !r.spoke && wire.SaysMissing(stderr)
		return failure(name, cmp.Or(stderr, end.err.Error()), end)
	case report.Finish == "":
		return retryable(apierr.Wrap(end, apierr.AgentError, "%s ended without an answer%s; try again", name, because(stderr)))
	default:
		return nil
	}
}

// passing are words that identify a temporary failure.
var passing = []string{
	"overloaded", "rate limit", "rate_limit", "too many requests", "timed out", "timeout", "connection", "network", "unavailable",
	"429", "500", "502", "503", "504", "529", "try again",
}

func failure(name, why string, cause error) error {
	err := apierr.Wrap(cause, apierr.AgentError, "%s failed%s", name, because(why))
	low := strings.ToLower(why)
	for _, word := range passing {
		err.Retryable = err.Retryable || strings.Contains(low, word)
	}
	return err
}

func retryable(e *apierr.Error) error {
	e.Retryable = true
	return e
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf(": %s", why)
}
