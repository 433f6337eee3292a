package scheduler

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/go-json-experiment/json"
)

// leaveWait is how long a new task waits for the place of one that has ended, and whose agent still cleans up.
const leaveWait = 5 * time.Second

// Submit takes a task in, and reports whether it is a new one: an idempotency key that has brought a task before brings
// that one again.
func (d *Scheduler) Submit(ctx context.Context, a remoteagent.Assignment, key string) (task remoteagent.Task, fresh bool, err error) {
	waiting, done := context.WithTimeout(ctx, leaveWait)
	defer done()
	for {
		task, fresh, err = d.submit(ctx, a, key)
		leaving, ok := errors.AsType[*leavingError](err)
		if !ok {
			return task, fresh, err
		}
		select {
		case <-leaving.done:
		case <-waiting.Done():
			return remoteagent.Task{}, false, unavailable("%s; try again", leaving.Error())
		}
	}
}

// leavingError reports that a slot is still in use by a task whose end clients have seen.
type leavingError struct {
	taskID string
	done   <-chan struct{} // closed when its place is free
}

// Error names the task.
func (e *leavingError) Error() string {
	return "the agent still cleans up after task " + e.taskID
}

func (d *Scheduler) submit(ctx context.Context, a remoteagent.Assignment, key string) (task remoteagent.Task, fresh bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock() // over the writes: of two tasks that come at once the second one finds the first
	known, err := d.known(ctx, key)
	if err != nil {
		return remoteagent.Task{}, false, err
	}
	if known != nil {
		return known.Task, false, same(a, known.Assignment)
	}
	entry, err := d.entry(ctx, a, key)
	if err != nil {
		return remoteagent.Task{}, false, err
	}
	if !d.open {
		return remoteagent.Task{}, false, unavailable("the agent server is stopping; try again soon")
	}
	blocker, fits := d.room(entry.SessionID)
	switch {
	case fits:
		entry.Status = remoteagent.Running
	case d.queued() < d.deps.Queue:
		entry.Status = remoteagent.Queued
	default:
		return remoteagent.Task{}, false, d.busy(ctx, blocker)
	}
	if err := d.deps.Store.Accept(ctx, entry); err != nil {
		return remoteagent.Task{}, false, err
	}
	d.waiting = append(d.waiting, newJob(entry))
	d.notify()
	return entry.Task, true, nil
}

// same refuses a key that comes with another assignment.
func same(a, before remoteagent.Assignment) error {
	one, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return err
	}
	other, err := json.Marshal(before, json.Deterministic(true))
	if err != nil {
		return err
	}
	if bytes.Equal(one, other) {
		return nil
	}
	return remoteagent.Refuse(http.StatusUnprocessableEntity, apierr.IdempotencyMismatch,
		"this Idempotency-Key has brought another task; use a fresh key for a new one")
}

// known returns the earlier task of an idempotency key, nil without one. It works too if the agent is busy, perhaps
// with that task, or its folder is gone.
func (d *Scheduler) known(ctx context.Context, key string) (*store.Entry, error) {
	if key == "" {
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	}
	found, err := d.deps.Store.Tasks(ctx, remoteagent.Query{IdempotencyKey: key, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	e, err := d.deps.Store.Task(ctx, found[0].TaskID)
	return &e, err
}

// entry makes a task of an assignment.
func (d *Scheduler) entry(ctx context.Context, a remoteagent.Assignment, key string) (store.Entry, error) {
	e := store.Entry{Assignment: a, IdempotencyKey: key}
	if d.deps.CheckModel != nil {
		if err := d.deps.CheckModel(a.Model); err != nil {
			return e, remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat, "%s", apierr.From(err).Message)
		}
	}
	if most := d.deps.MaxPermissionMode; most != "" && a.PermissionMode.Exceeds(most) {
		return e, remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat,
			"permissionMode %q is more than this agent permits; ask for %q at most, or have its operator raise maxPermissionMode",
			a.PermissionMode, most)
	}
	e.TaskID, e.SessionID = id.New("task"), a.SessionID
	now := time.Now().UTC().Truncate(time.Millisecond)
	e.CreatedAt, e.UpdatedAt = now, now
	cwd := a.Cwd
	if a.SessionID == "" {
		e.SessionID = id.New("session")
	} else {
		before, err := d.deps.Store.SessionCwd(ctx, a.SessionID)
		if errors.Is(err, store.ErrNotFound) {
			return e, remoteagent.Refuse(http.StatusNotFound, remoteagent.SessionNotFound,
				"there is no session %.64q, or it has expired; leave sessionId out for a new one", a.SessionID)
		}
		if err != nil {
			return e, err
		}
		if cwd == "" {
			cwd = before
		}
	}
	var err error
	e.Cwd, err = d.cwd.resolve(cwd)
	return e, err
}

// room reports whether a task may start at once, and else which one it would have to wait for. It must be called with
// mu held.
func (d *Scheduler) room(sessionID string) (blocker *job, fits bool) {
	for _, jobs := range []map[string]*job{d.running, d.asking} {
		for _, j := range jobs {
			if j.SessionID == sessionID {
				return j, false
			}
		}
	}
	if i := slices.IndexFunc(d.waiting, func(j *job) bool { return j.SessionID == sessionID }); i >= 0 {
		return d.waiting[i], false
	}
	if len(d.running)+len(d.waiting) < d.deps.Places {
		return nil, true
	}
	if first := d.oldest(); first != nil {
		return first, false
	}
	return d.waiting[0], false
}

// queued counts the tasks that wait for a place. It must be called with mu held.
func (d *Scheduler) queued() (n int) {
	for _, j := range d.waiting {
		if j.Status == remoteagent.Queued {
			n++
		}
	}
	return n
}

// busy refuses a task for the sake of another one.
func (d *Scheduler) busy(ctx context.Context, blocker *job) error {
	current, err := d.Task(ctx, blocker.TaskID)
	if err != nil {
		return err
	}
	if current.Status.Finished() {
		return &leavingError{current.TaskID, blocker.done}
	}
	return remoteagent.RefuseBusy(current)
}

func newJob(e store.Entry) *job {
	return &job{Entry: e, changed: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
}

// notify wakes the scheduler.
func (d *Scheduler) notify() {
	select {
	case d.wake <- struct{}{}:
	default: // a token is there already
	}
}
