package loop

import (
	"context"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/agentbus/agentbus/pkg/weaken"
)

const (
	// parallelCalls bounds the tool calls of one request that run at once.
	parallelCalls = 8
	// maxOutputBytes is the largest output that stays in the log.
	maxOutputBytes = 128 << 10
)

// calls gives a result to each call that has none, or announces the action that it needs from a client. It reports
// whether a call needs one.
func (r *run) calls(ctx context.Context) (waits bool, err error) {
	if r.State.Filtered() {
		return false, nil
	}
	var jobs []*job
	var actions, fresh []event.Continuation
	for _, c := range r.State.Waiting() {
		ruling, err := r.decide(c)
		if err != nil {
			return false, err
		}
		if ruling.wait == nil {
			jobs = append(jobs, &job{run: r, call: c, decision: ruling})
			continue
		}
		actions = append(actions, *ruling.wait)
		if ruling.announce {
			fresh = append(fresh, *ruling.wait)
		}
	}
	if err := r.perform(ctx, jobs); err != nil {
		return false, err
	}
	for _, j := range jobs {
		if j.action != nil {
			actions, fresh = append(actions, *j.action), append(fresh, *j.action)
		}
	}
	for _, action := range fresh {
		if err := r.events.emit(action); err != nil {
			return false, err
		}
	}
	if len(actions) > 0 {
		r.Actions.Put(ctx, actions)
	}
	return len(actions) > 0, nil
}

// job is a call that is being processed.
type job struct {
	run      *run
	call     transcript.Call
	decision decision
	action   *event.Continuation // the action that the result needs from a client; nil = none

	mu      sync.Mutex // a tool may emit progress after its call was given up
	over    bool
	blockID string
	deltas  int
	shown   int // how many events of the tool were written while it ran
}

type jobEnd struct {
	job    *job
	output Output
	err    error
}

// perform runs jobs in parallel. If ctx ends first, it waits only for a grace period: the end of the request then
// writes the results of the calls that still run.
func (r *run) perform(ctx context.Context, jobs []*job) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := r.checkAbort(ctx); err != nil {
		return err
	}
	if err := r.checkHandOver(); err != nil {
		return err
	}
	jobs, err := r.begin(ctx, jobs)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() {
		for _, j := range jobs {
			j.cut()
		}
	}()
	ends := make(chan jobEnd, len(jobs))
	slots := make(chan struct{}, parallelCalls)
	for _, j := range jobs {
		r.stragglers.Go(func() {
			end := jobEnd{job: j, err: errPanic}
			defer func() { ends <- end }()
			defer r.recover(ctx, "tool")
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				end.output, end.err = j.do(ctx)
			case <-ctx.Done():
				end.err = context.Cause(ctx)
			}
		})
	}
	return r.collect(ctx, cancel, ends, len(jobs))
}

// begin starts the result blocks, writes the results that need no run and those of built-in tools, and returns the jobs
// that must run.
func (r *run) begin(ctx context.Context, jobs []*job) (rest []*job, err error) {
	for _, j := range jobs {
		if err := j.start(); err != nil {
			return nil, err
		}
		output := j.decision.output
		if t, own := r.builtinTool(j.call.Name); own && output == nil {
			if output, err = settle(ctx, t, j.call.Call); err != nil {
				return nil, err
			}
		}
		if output == nil {
			rest = append(rest, j)
			continue
		}
		if err := j.finish(ctx, *output); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// collect writes results as they arrive. The first error cancels the other jobs.
func (r *run) collect(ctx context.Context, cancel context.CancelCauseFunc, ends <-chan jobEnd, n int) error {
	stopped := ctx.Done()
	var late <-chan time.Time
	for range n {
		var end jobEnd
		for received := false; !received; {
			select {
			case end = <-ends:
				received = true
			case <-stopped:
				stopped, late = nil, time.After(cancelGrace)
			case <-late:
				return context.Cause(ctx)
			}
		}
		err := end.err
		if err == nil {
			err = end.job.finish(ctx, end.output)
		}
		if err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (j *job) start() (err error) {
	j.blockID, err = j.run.events.open(func(b event.Block) event.Body {
		return event.ToolResult{Block: b, ToolCallID: j.call.ID, Tool: j.call.Name}
	})
	return err
}

func (j *job) do(ctx context.Context) (Output, error) {
	if ctx.Err() != nil {
		return Output{}, context.Cause(ctx)
	}
	if agents := j.run.Agents; agents != nil && agents.Has(j.call.Name) {
		return agents.Call(ctx, j.call.Call, j.decision.approval, relay{j})
	}
	return j.run.Tools.Call(ctx, j.call.Call, j.decision.approval, j.progress)
}

func (j *job) progress(p Progress) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	if p.Event != nil {
		j.show(*p.Event, p.Index)
	}
	if p.Delta == "" {
		return
	}
	at := j.run.events.delta(j.blockID, j.deltas)
	j.deltas++
	// If the log is lost, writing the result will return the error.
	_ = j.run.events.emit(event.ToolResult{Block: at, ToolCallID: j.call.ID, Delta: clean(p.Delta)})
}

// show writes an event of the tool while it runs, if it is the next one of its result, and if the log has no events of the call
// from a crashed runner. The others are written with the result. It must be called with mu held.
func (j *job) show(e event.Custom, index int) {
	if index != j.shown || j.shown == 0 && j.run.events.writtenCustoms(j.call.ID) > 0 {
		return
	}
	body, err := event.NewCustom(e.Type, e.Data)
	if err != nil {
		return
	}
	body.ToolCallID = j.call.ID
	j.shown++
	_ = j.run.events.custom(body) // as in progress
}

func (j *job) cut() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
}

// finish writes the result. The output for the model comes first, because a takeover needs it.
func (j *job) finish(ctx context.Context, output Output) error {
	j.cut()
	written := j.run.events.writtenCustoms(j.call.ID)
	if j.shown > 0 { // the log has these events, or the warnings about them
		written, output.Events = 0, output.Events[min(j.shown, len(output.Events)):]
	}
	if output.Asks != nil {
		if err := j.run.events.customs(j.call.ID, output.Events, written); err != nil {
			return err
		}
		return j.wait(*output.Asks)
	}
	if j.asks(output) {
		return j.ask()
	}
	ref := output.Ref
	if ref == nil && len(output.Content) > maxOutputBytes {
		stored, err := j.run.Objects.PutObject(ctx, []byte(output.Content))
		if err != nil {
			return err
		}
		ref = &stored
	}
	return j.run.events.result(j.call.ID, j.call.Name, j.blockID, output, ref, written)
}

// asks reports whether the user must decide about a call whose outcome is unknown.
func (j *job) asks(output Output) bool {
	spec, known := j.run.spec(j.call.Name)
	return output.Status == event.ToolUnknown && j.decision.output == nil && j.run.Agent.AskUnknown &&
		known && spec.Effect == tool.EffectUnsafe
}

// ask discards the result block. The call has no result until the user has decided.
func (j *job) ask() error {
	again, err := j.run.askAgain(j.call)
	if err != nil {
		return err
	}
	j.action = &again
	return j.giveUp(reasonUnknown)
}

func (j *job) giveUp(reason string) error {
	return j.run.events.discard(transcript.Block{
		ID: j.blockID, Kind: event.NameToolResult, CallID: j.call.ID, Tool: j.call.Name,
	}, reason)
}

// result writes the custom events of a call after the first ones, which a crashed runner has written, its output for the model,
// and the stop of its block for clients.
func (j *eventWriter) result(callID, name, blockID string, output Output, ref *event.ObjectRef, written int) error {
	if err := j.customs(callID, output.Events, written); err != nil {
		return err
	}
	body := event.ToolOutput{ToolCallID: callID, Status: output.Status, Content: clean(output.Content), Media: output.Media}
	if ref != nil {
		body.Content, body.Ref = "", ref
	}
	if err := j.emit(body); err != nil {
		return err
	}
	if ref != nil {
		j.storeOutput(callID, output.Content)
	}
	if weaken.Without(weaken.OneResult) {
		if err := j.emit(body); err != nil {
			return err
		}
	}
	return j.emit(event.ToolResult{
		Block: j.stop(blockID), ToolCallID: callID, Tool: name,
		Status: output.Status, Summary: output.Summary, Media: output.Media, ElapsedMS: output.Elapsed.Milliseconds(),
	})
}
