package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/weaken"
)

const (
	// maxStalls limits the claims without a finished step between them: the first, and two restarts.
	maxStalls = 3
	// cancelGrace is how long the end of a request waits for a backend or tool after its context is cancelled.
	cancelGrace = 500 * time.Millisecond
	// stopTimeout is how long Run waits for one that ignores the cancellation.
	stopTimeout = 3 * time.Second
)

var errTime = fmt.Errorf("%w: its time is over", backend.ErrEnds)

// run is a request that is being run.
type run struct {
	Request
	events         eventWriter
	messageID      string
	unfinished     event.Usage     // of a failed turn or summary, which no event has counted yet
	failedState    backend.State   // state of the session after a failed turn
	commandsRead   bool            // users' aborts and steers were read, and no step followed
	incompressible bool            // the conversation could not be compressed
	shortened      bool            // the conversation was too long for the model, and was compressed
	unpriced       bool            // clients know that the limit of cost has no effect
	fallback       int             // how many models did not answer
	cuts           int             // how often the connection to the agent was cut
	resent         int             // of these, those in the current turn after which it was sent again
	session        backend.Session // nil until the first turn
	stragglers     sync.WaitGroup
}

// Run runs a request until its terminal event is stored, and then returns nil. It returns the log's error if the log is
// lost, [ErrHandOver] if the request is handed over, and the cause of ctx if ctx is cancelled by anything but an
// [Abort]; in these cases another runner continues the request. Run waits a few seconds at most for the goroutines that
// it started.
func Run(ctx context.Context, request Request) error {
	r := newRun(request)
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeLeft(), errTime)
	defer cancel()

	finish, err := r.turns(ctx)
	err = r.end(ctx, finish, err)
	cancel()
	r.await(ctx)
	return err
}

// timeLeft returns how much of the request's time is left. Another process may have started it.
func (r *run) timeLeft() time.Duration {
	started := r.State.Started()
	if started.IsZero() {
		return r.Agent.Time
	}
	return r.Agent.Time - max(0, r.Now().Sub(started))
}

// Refuse ends a request that cannot run, with cause or with an earlier abort. It needs only the log, the state, and
// ReadCommands of the request. For the errors see [Run].
func Refuse(ctx context.Context, request Request, cause error) error {
	return newRun(request).end(ctx, "", cause)
}

func newRun(request Request) *run {
	if request.Now == nil {
		request.Now = time.Now
	}
	r := &run{Request: request, messageID: id.Derive(id.Message, request.RequestID)}
	r.events = eventWriter{
		now: r.Now, log: r.Log, requestID: r.RequestID, epoch: r.Epoch, messageID: r.messageID, validateCustom: r.ValidateCustom, state: r.State,
	}
	return r
}

// turns runs turns from the current state of the log to the end of the answer.
func (r *run) turns(ctx context.Context) (event.FinishReason, error) {
	if err := r.interrupted(); err != nil {
		return "", err
	}
	if err := r.events.discardOpen(); err != nil {
		return "", err
	}
	for {
		waits, err := r.calls(ctx)
		if err != nil {
			return "", err
		}
		if waits {
			return event.FinishActionRequired, nil
		}
		finish, finished := r.finished()
		if finished && r.limitReached() {
			return finish, nil
		}
		steered, err := r.readSteers(ctx)
		if err != nil {
			return "", err
		}
		if finished && !steered {
			return finish, nil
		}
		if err := r.checkHandOver(); err != nil {
			return "", err
		}
		if err := r.compress(ctx); err != nil {
			return "", err
		}
		if err := r.turn(ctx); err != nil {
			return "", err
		}
	}
}

// interrupted returns why a request that was taken over must end, or nil.
func (r *run) interrupted() error {
	var e *apierr.Error
	_, answered := r.State.Answered()
	switch {
	case r.State.Stalls() > maxStalls:
		e = apierr.New(apierr.AgentError, "the agent was interrupted %d times without getting any further; try again", maxStalls)
	case r.Agent.FailOnCrash && r.State.Crashed() && !answered:
		e = apierr.New(apierr.AgentError, "the agent was interrupted; try again")
	default:
		return nil
	}
	e.Retryable = true
	return e
}

// checkHandOver is called between two steps. It returns ErrHandOver if the request must be handed over.
func (r *run) checkHandOver() error {
	select {
	case <-r.HandOver:
		return ErrHandOver
	default:
		return nil
	}
}

// finished reports whether the request ends here, and why.
func (r *run) finished() (event.FinishReason, bool) {
	s := r.State
	finish, answered := s.Answered()
	switch {
	case s.Filtered():
		return finish, true
	case answered && (finish == event.FinishToolCalls || finish == ""):
		return event.FinishStop, true
	case answered:
		return finish, true
	case s.Turns() >= r.Agent.Turns:
		return event.FinishMaxTurns, true
	case r.overBudget():
		return event.FinishBudget, true
	default:
		return "", false
	}
}

// limitReached reports whether no further turn is possible, even after a steer.
func (r *run) limitReached() bool {
	return r.State.Filtered() || r.State.Turns() >= r.Agent.Turns || r.overBudget()
}

func (r *run) overBudget() bool {
	usage := r.State.Usage()
	return r.Agent.Tokens > 0 && usage.InputTokens+usage.OutputTokens >= r.Agent.Tokens ||
		r.Agent.CostUSD > 0 && usage.CostUSD >= r.Agent.CostUSD
}

// readSteers returns why the request must end, and writes new steers to the log. Blocks that a crashed runner left of a
// turn are replayed first: a steer belongs between two turns.
func (r *run) readSteers(ctx context.Context) (steered bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	abort, steers := r.ReadCommands(ctx)
	r.commandsRead = true
	if abort != nil {
		return false, abort
	}
	if len(r.State.Unfinished()) > 0 || r.State.Begun() {
		return false, nil
	}
	for _, s := range steers {
		if r.State.Steered(s.ID) || weaken.Without(weaken.Steers) {
			continue
		}
		input := event.Input{ThreadID: r.ThreadID, AgentID: r.Agent.Name, SteerID: s.ID, Messages: s.Messages}
		err := r.events.emit(input)
		if apierr.CodeOf(err) == apierr.MessageTooLarge { // an older version accepted it without measuring it
			r.Logger.WarnContext(ctx, "a steer is too large for the log and is not read", "requestId", r.RequestID, "steerId", s.ID, "error", err)
			continue
		}
		if err != nil {
			return false, err
		}
		steered = true
	}
	return steered, nil
}

// checkAbort returns why the request must end, or nil.
func (r *run) checkAbort(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if abort, _ := r.ReadCommands(ctx); abort != nil {
		return abort
	}
	return nil
}

// turn runs one turn of the model. A turn whose connection was cut is sent again, unless the agent's requests end with their
// first crash.
func (r *run) turn(ctx context.Context) error {
	r.resent = 0
	for {
		err := r.sendTurn(ctx)
		if !errors.Is(err, backend.ErrCut) || ctx.Err() != nil || r.Agent.FailOnCrash || r.resent == maxStalls-1 {
			return err
		}
		r.cuts++
		r.resent++
		if err := r.events.emit(event.Notice{Level: "warning", Message: "the connection to the agent was cut; the turn is sent again"}); err != nil {
			return err
		}
		if err := r.events.discardOpen(); err != nil {
			return err
		}
		if !pause(ctx, retryPause) {
			return context.Cause(ctx)
		}
	}
}

// sendTurn sends a turn to the backend and writes its answer.
func (r *run) sendTurn(ctx context.Context) error {
	r.commandsRead = false
	before := r.State.Usage().Add(r.unfinished)
	s := newTurnWriter(r)
	turn := r.newTurn()
	turn.Messages, turn.Summarised, turn.Known = r.State.Messages(), r.State.Summarised(), r.State.Known()
	turn.Attempt = 1 + r.State.Crashes() + r.cuts
	turn.Request = r.requestOptions()
	outcome, used, err := r.answer(ctx, turn, s)
	spent := errors.Is(err, errLimit)
	if err == nil || spent {
		err = s.finish(spent)
	}
	s.cut()
	usage := before.Add(used)
	if err != nil {
		r.unfinished, r.failedState = usage.Sub(r.State.Usage()), outcome.State
		if errors.Is(err, backend.ErrTooLong) && !s.shown() {
			return r.shorten(ctx, err)
		}
		return err
	}
	if err := r.checkPrice(outcome, used); err != nil {
		return err
	}
	if spent {
		return nil
	}
	end := s.ended(outcome, usage)
	if end.FinishReason == event.FinishToolCalls && s.answers() {
		end.FinishReason = event.FinishStop
	}
	if err := r.events.endTurn(outcome.State, end); err != nil {
		return err
	}
	r.unfinished = event.Usage{}
	if len(r.State.Waiting()) == 0 {
		return nil
	}
	// A call is stored before its tool runs: a takeover must see it.
	return r.Log.Flush(ctx)
}

// ended returns the event of a successful turn with the usage of the request so far.
func (s *turnWriter) ended(outcome backend.Outcome, usage event.Usage) event.UsageSoFar {
	if outcome.Usage == (event.Usage{}) {
		usage = s.run.State.Usage().Add(s.run.unfinished) // as counted by the steps
	}
	return event.UsageSoFar{
		Usage: usage, Turns: s.run.State.Turns() + max(1, outcome.Turns), FinishReason: outcome.Finish,
		Model: clean(outcome.Model), TTFTMS: s.ttft(), ElapsedMS: time.Since(s.started).Milliseconds(),
	}
}

// requestOptions returns the options of the request for the next turn. A tool that the model must call would otherwise be
// called in each turn.
func (r *run) requestOptions() event.RequestOptions {
	o := r.Agent.Request
	if c := o.ToolChoice; c != nil && r.State.Turns() > 0 && (c.Mode == event.ChooseRequired || c.Mode == event.ChooseTool) {
		o.ToolChoice = nil
	}
	return o
}

// newTurn returns a turn of the agent's model without messages.
func (r *run) newTurn() backend.Turn {
	return backend.Turn{
		RequestID: r.RequestID, ThreadID: r.ThreadID, AgentID: r.Agent.Name, Model: r.model(),
		System: r.Agent.System, Tools: r.Agent.Tools,
		MaxTokens: r.Agent.MaxTokens, Thinking: r.Agent.Thinking, Effort: r.Agent.Effort, UserID: r.UserID, Options: r.Agent.Options, Limits: r.remainingLimits(),
	}
}

// pricedUsage returns the usage of an answer with its cost, by the price of the model that answered or, if that is unknown, of
// the model that was asked.
func (r *run) pricedUsage(asked string, outcome backend.Outcome) event.Usage {
	usage := outcome.Usage
	for _, model := range []string{outcome.Model, asked} {
		if usage.CostUSD != 0 {
			break
		}
		usage.CostUSD, _ = r.Price(model, usage)
	}
	return usage
}

// estimatedUsage is pricedUsage, or the backend's estimate if the price is unknown.
func (r *run) estimatedUsage(asked string, outcome backend.Outcome) event.Usage {
	usage := r.pricedUsage(asked, outcome)
	if usage.CostUSD == 0 {
		usage.CostUSD = backend.EstimateCost(r.Backend, outcome)
	}
	return usage
}

// callBackend runs the backend and waits for it, for a grace period after ctx is done.
func (r *run) callBackend(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	type answer struct {
		outcome backend.Outcome
		err     error
	}
	answers := make(chan answer, 1)
	r.stragglers.Go(func() {
		a := answer{err: errPanic}
		defer func() { answers <- a }()
		defer r.recover(ctx, "backend")
		a.outcome, a.err = r.send(ctx, turn, emit)
	})
	select {
	case a := <-answers:
		return a.outcome, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		return a.outcome, context.Cause(ctx)
	case <-time.After(cancelGrace):
		return backend.Outcome{}, context.Cause(ctx)
	}
}

// send sends a turn to the agent's session, which it first starts, or resumes if the thread has one.
func (r *run) send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if r.session == nil {
		state := r.State.Session()
		if weaken.Without(weaken.RemotePlace) {
			state = backend.State{}
		}
		session, err := r.Backend.Start(ctx, backend.Start{
			State: state, RequestID: r.RequestID, ThreadID: r.ThreadID, AgentID: r.Agent.Name,
			UserID: r.UserID, Workspace: r.Workspace, Running: r.running(),
		})
		if err != nil {
			return backend.Outcome{}, err
		}
		r.session = session
	}
	return r.session.Send(ctx, turn, emit)
}

// running lists the tools that the agent kept running after the previous runner crashed.
func (r *run) running() (tools []backend.RunningTool) {
	for _, b := range r.State.Running() {
		tools = append(tools, backend.RunningTool{ID: b.AgentID, Name: b.Tool})
	}
	return tools
}

// stop ends the session.
func (r *run) stop(ctx context.Context) {
	if r.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := r.session.Stop(ctx); err != nil {
		r.Logger.WarnContext(ctx, "the session of an agent did not end well", "agent", r.Agent.Name, "error", err)
	}
}

// await waits for goroutines that ignored the cancellation of the request.
func (r *run) await(ctx context.Context) {
	gone := make(chan struct{})
	go func() {
		r.stragglers.Wait()
		r.stop(ctx)
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(stopTimeout):
		r.Logger.Error("a backend or tool does not return after its context is done", "agent", r.Agent.Name)
	}
}
