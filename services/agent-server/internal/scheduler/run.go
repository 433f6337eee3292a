package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/agentbus/agentbus/services/agent-server/internal/worker"
	"github.com/go-json-experiment/json"
)

const (
	// retryPause is the wait before a task is taken up again whose record could not be written.
	retryPause = 5 * time.Second
	// cancelReason is why the tasks that the hub cancelled after a timeout end.
	cancelReason = "cancelled by the orchestrator"
)

// Run runs tasks until ctx is done. Then it takes no more, gives those that run the grace, stops the rest, and returns.
func (d *Scheduler) Run(ctx context.Context) error {
	tasks, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	var all sync.WaitGroup
	for {
		for _, j := range d.ready() {
			all.Go(func() { d.work(tasks, j) })
		}
		expiry := time.NewTimer(d.untilExpiry())
		select {
		case <-d.wake:
		case <-expiry.C:
		case <-ctx.Done():
			expiry.Stop()
			d.drain(&all, cut)
			return nil
		}
		expiry.Stop()
	}
}

// ready takes the tasks from those that wait which may start now.
func (d *Scheduler) ready() []*job {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ready []*job
	if !d.open {
		return nil
	}
	d.expire()
	sessions := map[string]bool{}
	for _, jobs := range []map[string]*job{d.running, d.asking} {
		for _, j := range jobs {
			sessions[j.SessionID] = true
		}
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(j *job) bool {
		if len(d.running) >= d.deps.Places || sessions[j.SessionID] {
			return false
		}
		sessions[j.SessionID] = true
		d.running[j.TaskID] = j
		ready = append(ready, j)
		return true
	})
	return ready
}

// work runs a task. If its record cannot be written, work retries: otherwise no client would see its end.
func (d *Scheduler) work(ctx context.Context, j *job) {
	var err error
	defer func() {
		if errors.Is(err, worker.ErrNeedsAction) {
			d.suspend(ctx, j)
		} else {
			d.finish(j)
		}
	}()
	task, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil) // ends the watch
	watch.Go(func() {
		select {
		case <-j.stop:
			cancel(&loop.Abort{Reason: cancelReason})
		case <-task.Done():
		}
	})
	err = retry.Policy{ // the error that ends it was logged, or is one of those that need no log
		First: retryPause,
		Final: func(err error) bool {
			return errors.Is(err, worker.ErrStopping) || errors.Is(err, loop.ErrHandOver) || errors.Is(err, worker.ErrNeedsAction)
		},
		Failed: func(err error, _ time.Duration) {
			d.deps.Log.ErrorContext(ctx, "a task could not be run; it is tried again", telemetry.LogTask, j.TaskID, "error", err)
		},
	}.Do(ctx, func(context.Context) error { return d.deps.Run(task, j.Entry, d.leave) })
}

// finish forgets a task that has ended, or is left for the next start.
func (d *Scheduler) finish(j *job) {
	d.mu.Lock()
	delete(d.running, j.TaskID)
	close(j.changed)
	close(j.done)
	d.mu.Unlock()
	d.notify()
	d.deps.Ended()
}

// drain ends the work: tasks get the grace, and are cut off after it.
func (d *Scheduler) drain(all *sync.WaitGroup, cut context.CancelCauseFunc) {
	d.mu.Lock()
	d.open = false
	d.mu.Unlock()
	if d.deps.HandOver {
		close(d.leave)
	}
	grace := time.AfterFunc(d.deps.Grace, func() { cut(worker.ErrStopping) })
	defer grace.Stop()
	all.Wait()
}

// stopTask cancels a task and waits until it has stopped. It reports whether the task was running.
func (d *Scheduler) stopTask(ctx context.Context, taskID string) (stopped bool, err error) {
	d.mu.Lock()
	j := d.find(taskID)
	if j == nil {
		d.mu.Unlock()
		return false, nil
	}
	if _, runs := d.running[taskID]; !runs {
		defer d.deps.Ended()
		defer d.mu.Unlock()
		return true, d.drop(ctx, j)
	}
	select {
	case <-j.stop:
	default:
		close(j.stop)
	}
	d.mu.Unlock()
	select {
	case <-j.done:
	case <-ctx.Done():
	}
	return true, nil
}

// drop ends a task that waits for its start or for an action. It must be called with mu held.
func (d *Scheduler) drop(ctx context.Context, j *job) error {
	newest, err := d.deps.Events.LastEvent(ctx, j.TaskID)
	if err != nil {
		return err
	}
	stored, err := d.deps.Store.Task(ctx, j.TaskID)
	if err != nil {
		return err
	}
	task, now := stored.Task, time.Now().UTC()
	task.Status, task.StopReason, task.UpdatedAt, task.CompletedAt, task.Actions = remoteagent.Cancelled, "cancelled", now, now, nil
	result := remoteagent.Result{
		Status: task.Status, StopReason: task.StopReason, SessionID: task.SessionID, CostUSD: task.CostUSD,
		TurnsCompleted: task.TurnsCompleted, FilesModified: task.FilesModified, Denials: task.Denials, Usage: task.Usage,
	}
	data, err := json.Marshal(result)
	if err != nil {
		return err
	}
	err = d.deps.Events.Append(ctx, store.Batch{
		Task: task, Events: []store.Event{{N: newest.N + 1, Name: result.Name(), Data: string(data)}},
	})
	if err != nil {
		return err
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(other *job) bool { return other == j })
	delete(d.asking, j.TaskID)
	close(j.changed)
	close(j.done)
	return nil
}
