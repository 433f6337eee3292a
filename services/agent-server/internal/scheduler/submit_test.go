package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/scheduler"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

// works runs tasks that end when the test says so, and stores their ends.
type works struct {
	store *store.Store

	mu    sync.Mutex
	order []string
	gates map[string]chan struct{}
}

func (w *works) gate(prompt string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gates[prompt] == nil {
		w.gates[prompt] = make(chan struct{})
	}
	return w.gates[prompt]
}

func (w *works) run(ctx context.Context, e store.Entry, _ <-chan struct{}) error {
	w.mu.Lock()
	w.order = append(w.order, e.Assignment.Prompt)
	w.mu.Unlock()
	e.Status = remoteagent.Completed
	select {
	case <-w.gate(e.Assignment.Prompt):
	case <-ctx.Done():
		e.Status = remoteagent.Cancelled
	}
	e.CompletedAt = time.Now()
	return w.store.Append(context.WithoutCancel(ctx), store.Batch{Task: e.Task})
}

func (w *works) begun() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.order)
}

func newScheduler(t *testing.T, places int) (*scheduler.Scheduler, *works) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	w := &works{store: s, gates: map[string]chan struct{}{}}
	d, err := scheduler.Open(t.Context(), scheduler.Deps{
		Store: s, Events: s, Run: w.run, Places: places, Queue: 2, Root: t.TempDir(), Log: slog.New(slog.DiscardHandler), Ended: func() {},
		Retention: scheduler.Retention{Tasks: time.Hour, Sessions: time.Hour, Tombstones: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = s.Close()
	})
	return d, w
}

func submit(t *testing.T, d *scheduler.Scheduler, prompt, session string) remoteagent.Task {
	t.Helper()
	task, _, err := d.Submit(t.Context(), remoteagent.Assignment{Prompt: prompt, SessionID: session}, "")
	if err != nil {
		t.Fatalf("%s: %v", prompt, err)
	}
	return task
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20s", what)
		}
	}
}

func TestTasksWaitForASlotInTheirOrder(t *testing.T) {
	t.Parallel()
	d, w := newScheduler(t, 1)
	if got := submit(t, d, "one", ""); got.Status != remoteagent.Running {
		t.Errorf("the first task: got %s, want running", got.Status)
	}
	for _, prompt := range []string{"two", "three"} {
		if got := submit(t, d, prompt, ""); got.Status != remoteagent.Queued {
			t.Errorf("task %s: got %s, want queued", prompt, got.Status)
		}
	}
	_, _, err := d.Submit(t.Context(), remoteagent.Assignment{Prompt: "four"}, "")
	if refusal, ok := errors.AsType[*remoteagent.Refusal](err); !ok || refusal.HTTP != 409 {
		t.Errorf("a task more than the queue has room for: got %v, want 409", err)
	}
	for i, prompt := range []string{"one", "two", "three"} {
		eventually(t, "the start of "+prompt, func() bool { return len(w.begun()) == i+1 })
		close(w.gate(prompt))
	}
	if got, want := w.begun(), []string{"one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("got the order %q, want %q", got, want)
	}
}

func TestASessionRunsOneTaskAtATime(t *testing.T) {
	t.Parallel()
	d, w := newScheduler(t, 2)
	first := submit(t, d, "one", "")
	eventually(t, "the start of the first task", func() bool { return slices.Contains(w.begun(), "one") })
	if got := submit(t, d, "two", first.SessionID); got.Status != remoteagent.Queued || got.SessionID != first.SessionID {
		t.Errorf("got %s in session %s, want queued in %s", got.Status, got.SessionID, first.SessionID)
	}
	if got := submit(t, d, "other", ""); got.Status != remoteagent.Running && got.Status != remoteagent.Queued {
		t.Errorf("another session: got %s", got.Status)
	}
	eventually(t, "the start of the other session", func() bool { return slices.Contains(w.begun(), "other") })
	if slices.Contains(w.begun(), "two") {
		t.Error("two tasks of one session run at one time")
	}
	close(w.gate("one"))
	eventually(t, "the start of the second task", func() bool { return slices.Contains(w.begun(), "two") })
	close(w.gate("two"))
	close(w.gate("other"))
	_, _, err := d.Submit(t.Context(), remoteagent.Assignment{Prompt: "x", SessionID: "session_none"}, "")
	if refusal, ok := errors.AsType[*remoteagent.Refusal](err); !ok || refusal.Code != remoteagent.SessionNotFound {
		t.Errorf("a session that does not exist: got %v", err)
	}
}

func TestAKeyIsOfOneAssignment(t *testing.T) {
	t.Parallel()
	d, w := newScheduler(t, 2)
	a := remoteagent.Assignment{Prompt: "one"}
	first, fresh, err := d.Submit(t.Context(), a, "key")
	if err != nil || !fresh {
		t.Fatalf("got fresh %v and %v", fresh, err)
	}
	again, fresh, err := d.Submit(t.Context(), a, "key")
	if err != nil || fresh || again.TaskID != first.TaskID {
		t.Errorf("the same assignment: got task %s, fresh %v and %v, want %s", again.TaskID, fresh, err, first.TaskID)
	}
	_, _, err = d.Submit(t.Context(), remoteagent.Assignment{Prompt: "two"}, "key")
	if refusal, ok := errors.AsType[*remoteagent.Refusal](err); !ok || refusal.HTTP != 422 || refusal.Code != apierr.IdempotencyMismatch {
		t.Errorf("another assignment: got %v, want 422", err)
	}
	close(w.gate("one"))
	eventually(t, "the end", func() bool {
		got, err := d.Task(t.Context(), first.TaskID)
		return err == nil && got.Status == remoteagent.Completed
	})
	if again, fresh, err = d.Submit(t.Context(), a, "key"); err != nil || fresh || again.TaskID != first.TaskID {
		t.Errorf("after its end: got task %s, fresh %v and %v, want %s", again.TaskID, fresh, err, first.TaskID)
	}
}

func TestAWaitingTaskIsCancelledBeforeItRuns(t *testing.T) {
	t.Parallel()
	d, w := newScheduler(t, 1)
	submit(t, d, "one", "")
	waiting := submit(t, d, "two", "")
	if _, err := d.Cancel(t.Context(), waiting.TaskID); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Task(t.Context(), waiting.TaskID); err != nil || got.Status != remoteagent.Cancelled {
		t.Errorf("got %s and %v, want cancelled", got.Status, err)
	}
	last := submit(t, d, "three", "")
	close(w.gate("one"))
	eventually(t, "the start of the last task", func() bool { return slices.Contains(w.begun(), "three") })
	if slices.Contains(w.begun(), "two") {
		t.Error("a cancelled task runs")
	}
	close(w.gate("three"))
	eventually(t, "its end", func() bool {
		got, err := d.Task(t.Context(), last.TaskID)
		return err == nil && got.Status == remoteagent.Completed
	})
	_, err := d.Cancel(t.Context(), "task_none")
	if refusal, ok := errors.AsType[*remoteagent.Refusal](err); !ok || refusal.HTTP != 404 {
		t.Errorf("a task that does not exist: got %v, want 404", err)
	}
}
