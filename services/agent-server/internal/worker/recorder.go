package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/agentbus/agentbus/services/agent-server/internal/taskevents"
	"github.com/go-json-experiment/json"
)

const (
	// maxPending limits the events that wait to be stored; over the limit, adding one blocks.
	maxPending = 4096
	// storeTimeout is how long storing is tried: the disk may be full for a while.
	storeTimeout = 30 * time.Second
	storePause   = 250 * time.Millisecond
)

var errClosed = errors.New("the record of the task is closed")

// recorder is the log of a task's requests: it stores the events for the agent's session and for clients. One batch is
// stored at a time; events that arrive meanwhile go into the next. Clients see only stored events.
type recorder struct {
	worker    *Worker
	requestID string // of the events to come; set between two requests
	wake      chan struct{}
	closing   chan struct{}
	ended     sync.WaitGroup

	mu        sync.Mutex
	changed   *sync.Cond // something was stored, or never will be
	converter *taskevents.Converter
	events    uint64 // number of the newest event
	lines     int64  // number of the newest line
	pending   store.Batch
	dirty     bool
	writing   bool
	lost      error
}

func newRecorder(w *Worker, e store.Entry, converter *taskevents.Converter, events uint64, lines int64) *recorder {
	r := &recorder{
		worker: w, converter: converter, events: events, lines: lines,
		wake: make(chan struct{}, 1), closing: make(chan struct{}),
		pending: store.Batch{Task: e.Task},
	}
	r.changed = sync.NewCond(&r.mu)
	r.ended.Go(r.write)
	return r
}

// Emit implements loop.Log.
func (r *recorder) Emit(bodies ...event.Body) error {
	_, err := r.emit(bodies...)
	return err
}

// emit adds events to one batch, so that all of them are stored or none.
func (r *recorder) emit(bodies ...event.Body) ([]event.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.await(); err != nil {
		return nil, err
	}
	events := make([]event.Event, 0, len(bodies))
	for _, body := range bodies {
		e, err := r.add(body)
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// await waits for room, and returns why nothing can be recorded any more. It must be called with mu held.
func (r *recorder) await() error {
	for r.lost == nil && len(r.pending.Events)+len(r.pending.Lines) >= maxPending {
		r.changed.Wait()
	}
	return r.lost
}

// add must be called with mu held.
func (r *recorder) add(body event.Body) (event.Event, error) {
	e := event.Event{RequestID: r.requestID, Time: time.Now().UTC().Truncate(time.Millisecond), Body: body}
	if !isDelta(body) { // the fold of a log does not need them
		text, err := event.Encode(e)
		if err != nil {
			return event.Event{}, err
		}
		r.lines++
		r.pending.Lines = append(r.pending.Lines, store.Line{N: r.lines, Text: string(text)})
	}
	return e, r.show(r.converter.Convert(e)...)
}

// begin shows that the task runs.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.show(r.converter.Begin(time.Now())); err != nil {
		r.lost = err
	}
}

// ask shows that the task waits for actions.
func (r *recorder) ask(actions []remoteagent.Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.show(r.converter.Ask(actions, time.Now())); err != nil {
		r.lost = err
	}
}

// show must be called with mu held.
func (r *recorder) show(bodies ...remoteagent.Body) error {
	for _, body := range bodies {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode %s event: %w", body.Name(), err)
		}
		r.events++
		r.pending.Events = append(r.pending.Events, store.Event{N: r.events, Name: body.Name(), Data: string(data)})
	}
	if len(r.pending.Events)+len(r.pending.Lines) == 0 {
		return nil
	}
	r.dirty = true
	select {
	case r.wake <- struct{}{}:
	default: // a token is there already
	}
	return nil
}

// Flush implements loop.Log.
func (r *recorder) Flush(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed.Broadcast()
	})()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.lost == nil && (r.dirty || r.writing) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.changed.Wait()
	}
	return r.lost
}

// write stores batches until close.
func (r *recorder) write() {
	for {
		select {
		case <-r.wake:
		case <-r.closing:
			r.store()
			return
		}
		r.store()
	}
}

func (r *recorder) store() {
	r.mu.Lock()
	if r.lost != nil || !r.dirty {
		r.mu.Unlock()
		return
	}
	batch := r.pending
	batch.Task = r.converter.Task()
	r.pending, r.dirty, r.writing = store.Batch{}, false, true
	r.mu.Unlock()

	err := r.append(batch)

	r.mu.Lock()
	r.writing = false
	if err != nil {
		r.lost = err
	}
	r.changed.Broadcast()
	r.mu.Unlock()
	r.worker.deps.Changed(batch.Task.TaskID)
}

// append tries for a while: a task should not be lost because the disk was full for a moment.
func (r *recorder) append(batch store.Batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	for {
		err := r.worker.deps.Store.Append(ctx, batch)
		if err == nil {
			return nil
		}
		r.worker.deps.Log.WarnContext(ctx, "what a task did could not be stored", telemetry.LogTask, batch.Task.TaskID, "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-r.closing:
			return err
		case <-time.After(storePause):
		}
	}
}

// close stores what is left, and ends the recorder.
func (r *recorder) close() {
	close(r.closing)
	r.ended.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = errClosed
	}
	r.changed.Broadcast()
}

func (r *recorder) task() remoteagent.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.converter.Task()
}

// earlierTurns counts the turns of the task's requests before this one.
func (r *recorder) earlierTurns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.converter.EarlierTurns()
}

func (r *recorder) earlierCost() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.converter.EarlierCost()
}

func isDelta(body event.Body) bool {
	switch b := body.(type) {
	case event.Text:
		return b.Stage == event.StageDelta
	case event.Thinking:
		return b.Stage == event.StageDelta
	case event.FinalAnswer:
		return b.Stage == event.StageDelta
	case event.ToolCall:
		return b.Stage == event.StageDelta
	case event.ToolResult:
		return b.Stage == event.StageDelta
	default:
		return false
	}
}
