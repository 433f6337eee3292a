package scheduler

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// maxExpiry is the longest wait for the expiry of an action.
const maxExpiry = time.Hour

// Answer stores the results of a task's actions, and lets the task continue once each action has one.
func (d *Scheduler) Answer(ctx context.Context, taskID string, a remoteagent.Answer) (remoteagent.Task, error) {
	if err := d.answer(ctx, taskID, a); err != nil {
		return remoteagent.Task{}, err
	}
	return d.Task(ctx, taskID)
}

func (d *Scheduler) answer(ctx context.Context, taskID string, a remoteagent.Answer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.deps.Store.Task(ctx, taskID)
	if err != nil {
		_, err = d.Task(ctx, taskID) // says it to clients
		return err
	}
	repeated, err := repeats(e.Answers, a)
	if err != nil || repeated {
		return err
	}
	if e.Status.Finished() {
		r := remoteagent.Refuse(http.StatusConflict, remoteagent.TaskFinished, "the task has ended as %s; its actions take no results", e.Status)
		r.TaskID, r.Status = taskID, e.Status
		return r
	}
	if err := fits(a, e.Actions, time.Now()); err != nil {
		return err
	}
	e.Answers = append(e.Answers, a)
	if err := d.deps.Store.PutAnswers(ctx, taskID, e.Answers); err != nil {
		return err
	}
	if j := d.asking[taskID]; j != nil {
		delete(d.asking, taskID)
		j.Entry = e
		d.place(j)
		d.notify()
	}
	return nil
}

// repeats reports whether all results of an answer are known already. It refuses one that differs.
func repeats(known []remoteagent.Answer, a remoteagent.Answer) (bool, error) {
	repeated := true
	for _, r := range a.ActionResults {
		before, ok := remoteagent.ResultOf(known, r.ActionID)
		if ok && !equal(before, r) {
			return false, remoteagent.Refuse(http.StatusConflict, remoteagent.ActionResolved,
				"action %.64q has another result already, %s", r.ActionID, before.Status)
		}
		repeated = repeated && ok
	}
	return repeated, nil
}

func equal(a, b event.ActionResult) bool {
	one, err := json.Marshal(a, json.Deterministic(true))
	other, err2 := json.Marshal(b, json.Deterministic(true))
	return err == nil && err2 == nil && bytes.Equal(one, other)
}

// fits refuses results for actions that the task does not have or that have expired, and answers without a text.
func fits(a remoteagent.Answer, actions []remoteagent.Action, now time.Time) error {
	for _, r := range a.ActionResults {
		i := slices.IndexFunc(actions, func(action remoteagent.Action) bool { return action.ActionID == r.ActionID })
		switch {
		case i < 0:
			return remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidActionID, "the task does not wait for action %.64q", r.ActionID)
		case !now.Before(actions[i].ExpiresAt):
			return remoteagent.Refuse(http.StatusConflict, remoteagent.ActionResolved, "action %.64q has expired", r.ActionID)
		case actions[i].Kind == event.ContinueInput && r.Status == event.ActionSuccess && len(r.Result) == 0:
			return remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat,
				"the result of action %.64q is missing; send the user's answer", r.ActionID)
		}
	}
	return nil
}

// place puts a task where it waits: for actions, or for its start. It must be called with mu held, or before Run.
func (d *Scheduler) place(j *job) {
	if j.Status == remoteagent.NeedsAction && len(remoteagent.Unanswered(j.Actions, j.Answers, time.Now())) > 0 {
		d.asking[j.TaskID] = j
		return
	}
	d.waiting = append(d.waiting, j)
}

// suspend takes a task out of its place until its actions have results, which may have come already.
func (d *Scheduler) suspend(ctx context.Context, j *job) {
	d.mu.Lock()
	defer d.notify()
	defer d.mu.Unlock()
	delete(d.running, j.TaskID)
	ctx = context.WithoutCancel(ctx)
	e, err := d.deps.Store.Task(ctx, j.TaskID)
	if err == nil { // otherwise its next run finds that it waits
		j.Entry = e
	}
	select {
	case <-j.stop: // it was cancelled meanwhile
		if err := d.drop(ctx, j); err == nil { // otherwise its next run records the end
			defer d.deps.Ended()
			return
		}
	default:
	}
	d.place(j)
}

// expire lets the tasks continue whose actions have expired. It must be called with mu held.
func (d *Scheduler) expire() {
	for id, j := range d.asking {
		if len(remoteagent.Unanswered(j.Actions, j.Answers, time.Now())) == 0 {
			delete(d.asking, id)
			d.waiting = append(d.waiting, j)
		}
	}
}

// untilExpiry is how long no task has to continue because of its actions' expiry.
func (d *Scheduler) untilExpiry() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := maxExpiry
	for _, j := range d.asking {
		for _, a := range j.Actions {
			wait = min(wait, max(0, time.Until(a.ExpiresAt)))
		}
	}
	return wait
}
