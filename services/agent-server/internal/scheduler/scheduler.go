// Package scheduler accepts tasks, queues them until a slot is free, runs them, and cancels them. Its state is in the
// store: a new scheduler continues from there.
//
// Read submit.go for how a task is accepted, run.go for how it runs, answer.go for how it continues after an action, cwd.go
// for the folders that tasks may use.
package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

// Store keeps tasks.
type Store interface {
	Accept(ctx context.Context, e store.Entry) error
	Task(ctx context.Context, taskID string) (store.Entry, error)
	Tasks(ctx context.Context, q remoteagent.Query) ([]remoteagent.Task, error)
	Unfinished(ctx context.Context) ([]store.Entry, error)
	SessionCwd(ctx context.Context, sessionID string) (string, error)
	PutAnswers(ctx context.Context, taskID string, answers []remoteagent.Answer) error
	Sweep(ctx context.Context, finished, idle, buried time.Time) (int64, error)
}

// EventStore keeps the events of tasks.
type EventStore interface {
	Events(ctx context.Context, taskID string, after uint64, limit int) ([]store.Event, error)
	LastEvent(ctx context.Context, taskID string) (store.Event, error)
	Append(ctx context.Context, b store.Batch) error
}

// Run runs one task to its end; see work.Worker.
type Run func(ctx context.Context, e store.Entry, leave <-chan struct{}) error

// Retention says how long things are kept.
type Retention struct {
	Tasks      time.Duration // after their end
	Sessions   time.Duration // after their last use
	Tombstones time.Duration // after the task was removed
}

// Deps are the dependencies and settings of a scheduler.
type Deps struct {
	Store     Store
	Events    EventStore
	Run       Run
	Places    int // tasks at a time
	Queue     int // tasks that may wait
	Root      string
	Retention Retention
	HandOver  bool          // at a stop, tasks are left where a step ends, for the next start
	Grace     time.Duration // for tasks at a stop
	Log       *slog.Logger
	Ended     func() // called when a task has ended

	CheckModel        func(model string) error   // refuses a model that a task may not name; nil = any
	MaxPermissionMode remoteagent.PermissionMode // a task that asks for more is refused; "" = any
}

// Scheduler is safe for concurrent use.
type Scheduler struct {
	deps  Deps
	cwd   folders
	wake  chan struct{} // holds a token while a task may start
	leave chan struct{} // closed = tasks shall be left where a step ends

	mu      sync.Mutex
	open    bool // tasks are taken
	running map[string]*job
	waiting []*job
	asking  map[string]*job // that wait for actions: they occupy no place
}

// job is a task that has not ended.
type job struct {
	store.Entry
	changed chan struct{} // closed at the next news, and replaced
	stop    chan struct{} // closed when the task is cancelled
	done    chan struct{} // closed once it has ended, or is left for the next start
}

// Open returns a scheduler with the unfinished tasks of the store. Run starts them, and later ones.
func Open(ctx context.Context, deps Deps) (*Scheduler, error) {
	cwd, err := newFolders(deps.Root)
	if err != nil {
		return nil, err
	}
	entries, err := deps.Store.Unfinished(ctx)
	if err != nil {
		return nil, err
	}
	// Those that ran go first, however many places there are now.
	slices.SortStableFunc(entries, func(a, b store.Entry) int { return rank(a) - rank(b) })
	d := &Scheduler{
		deps: deps, cwd: cwd, open: true, running: map[string]*job{}, asking: map[string]*job{},
		wake: make(chan struct{}, 1), leave: make(chan struct{}),
	}
	for _, e := range entries {
		d.place(newJob(e))
	}
	return d, nil
}

func rank(e store.Entry) int {
	if e.Status == remoteagent.Running {
		return 0
	}
	return 1
}

// Task returns the status of one task.
func (d *Scheduler) Task(ctx context.Context, taskID string) (remoteagent.Task, error) {
	e, err := d.deps.Store.Task(ctx, taskID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return remoteagent.Task{}, remoteagent.Refuse(http.StatusNotFound, remoteagent.TaskNotFound, "there is no task %.64q", taskID)
	case errors.Is(err, store.ErrGone):
		return remoteagent.Task{}, remoteagent.Refuse(http.StatusGone, remoteagent.TaskGone,
			"task %.64q ended more than %v ago and was removed", taskID, d.deps.Retention.Tasks)
	default:
		e.Actions = remoteagent.Unanswered(e.Actions, e.Answers, time.Now())
		if e.Status == remoteagent.NeedsAction && len(e.Actions) == 0 { // it is about to continue
			e.Status = remoteagent.Running
		}
		return e.Task, err
	}
}

// Tasks lists tasks, the newest first.
func (d *Scheduler) Tasks(ctx context.Context, q remoteagent.Query) ([]remoteagent.Task, error) {
	return d.deps.Store.Tasks(ctx, q)
}

// Events returns the events of a task after number after, up to limit.
func (d *Scheduler) Events(ctx context.Context, taskID string, after uint64, limit int) ([]store.Event, error) {
	return d.deps.Events.Events(ctx, taskID, after, limit)
}

// LastEvent returns the newest event of a task; N is 0 without one.
func (d *Scheduler) LastEvent(ctx context.Context, taskID string) (store.Event, error) {
	return d.deps.Events.LastEvent(ctx, taskID)
}

// Current is the task that has run longest, nil when none runs, and how many wait.
func (d *Scheduler) Current(ctx context.Context) (current *remoteagent.Task, waiting int, err error) {
	d.mu.Lock()
	first := d.oldest()
	waiting = len(d.waiting)
	d.mu.Unlock()
	if first == nil {
		return nil, waiting, nil
	}
	task, err := d.Task(ctx, first.TaskID)
	return &task, waiting, err
}

// oldest must be called with mu held.
func (d *Scheduler) oldest() *job {
	var first *job
	for _, j := range d.running {
		if first == nil || j.TaskID < first.TaskID { // ids sort by time
			first = j
		}
	}
	return first
}

// find must be called with mu held.
func (d *Scheduler) find(taskID string) *job {
	if j, ok := d.running[taskID]; ok {
		return j
	}
	if j, ok := d.asking[taskID]; ok {
		return j
	}
	if i := slices.IndexFunc(d.waiting, func(j *job) bool { return j.TaskID == taskID }); i >= 0 {
		return d.waiting[i]
	}
	return nil
}

// Changed rings for those who wait for news of a task.
func (d *Scheduler) Changed(taskID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.find(taskID); j != nil {
		close(j.changed)
		j.changed = make(chan struct{})
	}
}

// News returns a channel that is closed at the next change of a task. It is nil if the task has ended.
func (d *Scheduler) News(taskID string) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.find(taskID); j != nil {
		return j.changed
	}
	return nil
}

// Cancel stops a task, and returns once it has stopped.
func (d *Scheduler) Cancel(ctx context.Context, taskID string) (remoteagent.Cancellation, error) {
	stopped, err := d.stopTask(ctx, taskID)
	if err != nil {
		return remoteagent.Cancellation{}, err
	}
	task, err := d.Task(ctx, taskID)
	switch {
	case err != nil:
		return remoteagent.Cancellation{}, err
	case stopped && task.Status == remoteagent.Cancelled:
		return remoteagent.NewCancellation(taskID), nil
	case task.Status.Finished():
		return remoteagent.Cancellation{}, remoteagent.RefuseCancel(task)
	default:
		return remoteagent.Cancellation{}, unavailable("task %.64q is being stopped; ask again", taskID)
	}
}

func unavailable(format string, args ...any) error {
	r := remoteagent.Refuse(http.StatusServiceUnavailable, apierr.Unavailable, format, args...)
	r.RetryAfter = time.Second
	return r
}

// Sweep removes what is too old until ctx is done.
func (d *Scheduler) Sweep(ctx context.Context) error {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		now, keep := time.Now(), d.deps.Retention
		n, err := d.deps.Store.Sweep(ctx, now.Add(-keep.Tasks), now.Add(-keep.Sessions), now.Add(-keep.Tombstones))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			d.deps.Log.WarnContext(ctx, "old tasks could not be removed", "error", err)
		case n > 0:
			d.deps.Log.InfoContext(ctx, "old tasks were removed", "tasks", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}
