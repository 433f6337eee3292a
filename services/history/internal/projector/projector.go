// Package projector carries the logs from the bus into the store: what is delivered twice is stored once, what is missing
// is fetched, and what cannot be stored now is tried again for ever.
package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// Log reads what the stream holds of a request. A *bus.Bus is one.
type Log interface {
	Read(ctx context.Context, id bus.LogID, from uint64) iter.Seq2[event.Frame, error]
	Now() time.Time // by the clock that stamps entries
}

// Pauses after a failure of the database: they double up to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// Projector stores batches. Apply is for one goroutine at a time, everything else for any number.
type Projector struct {
	store   store.Recorder
	stream  Log
	log     *slog.Logger
	metrics metrics
	pause   time.Duration // before the next try; 0 = the last one succeeded
	hurry   chan struct{} // capacity 1: a reader waits for the next batch

	mu      sync.Mutex
	changed chan struct{}
	known   store.Known
}

// New returns a projector.
func New(s store.Recorder, stream Log, log *slog.Logger) (*Projector, error) {
	m, err := newMetrics()
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	return &Projector{store: s, stream: stream, log: log, metrics: m, hurry: make(chan struct{}, 1), changed: make(chan struct{})}, nil
}

// Changed returns a channel that is closed when more has been stored.
func (r *Projector) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// current returns the state with which the next batch is stored.
func (r *Projector) current() store.Known {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known
}

// setProgress stores the version of a progress that was read or written.
func (r *Projector) setProgress(p store.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.Version = max(r.known.Version, p.Version)
}

// reached notes how far the stream is stored.
func (r *Projector) reached(k store.Known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.Through, r.known.Version = k.Through, max(r.known.Version, k.Version)
}

// forget has the next batch stored in whatever database there is.
func (r *Projector) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = store.Known{}
}

// Hurry signals on Hurried that a reader waits for events that are not stored yet.
func (r *Projector) Hurry() {
	select {
	case r.hurry <- struct{}{}:
	default:
	}
}

// Hurried returns the channel that Hurry signals.
func (r *Projector) Hurried() <-chan struct{} { return r.hurry }

func (r *Projector) announce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Apply is a bus.Apply. It says in the log when an outage of the database begins and ends, and slows down meanwhile.
func (r *Projector) Apply(ctx context.Context, batch []bus.Entry) ([]error, error) {
	entries := stored(batch)
	begun := time.Now()
	errs, err := r.apply(ctx, entries)
	if err != nil {
		return nil, r.backOff(ctx, err)
	}
	if r.pause > 0 {
		r.pause = 0
		r.log.InfoContext(ctx, "history stores events again")
	}
	r.metrics.stored(ctx, time.Since(begun), r.stream.Now(), entries)
	r.announce()
	return errs, nil
}

// stored returns a batch as the store takes it.
func stored(batch []bus.Entry) []store.Entry {
	entries := make([]store.Entry, len(batch))
	for i, e := range batch {
		entries[i] = store.Entry{
			Tenant: e.Tenant, ThreadID: e.ThreadID, RequestID: e.RequestID, Sequence: e.Sequence, Time: e.Time,
			Accepted: e.Accepted, Thread: e.Thread, Session: e.Session, Frame: e.Frame,
		}
	}
	return entries
}

// backOff notes a failure of the database and waits.
func (r *Projector) backOff(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if r.pause == 0 {
		r.log.ErrorContext(ctx, "history cannot store events; it tries until it can", "error", err)
	}
	r.pause = min(max(2*r.pause, firstPause), longestPause)
	select {
	case <-ctx.Done():
	case <-time.After(r.pause):
	}
	return err
}

// apply stores entries, heals their holes, and says what must come again.
func (r *Projector) apply(ctx context.Context, entries []store.Entry) ([]error, error) {
	errs, err := r.put(ctx, entries)
	if err != nil {
		return nil, err
	}
	if err := r.heal(ctx, entries, errs); err != nil {
		return nil, err
	}
	for i, err := range errs {
		if errors.Is(err, store.ErrStale) {
			r.log.ErrorContext(ctx, "history left out what contradicts it", "sequence", entries[i].Sequence, "error", err)
			errs[i] = nil
		}
	}
	return errs, nil
}

// put stores entries. Where the database refuses the data of one, it finds that one by halves: the others must not wait.
func (r *Projector) put(ctx context.Context, entries []store.Entry) ([]error, error) {
	result, err := r.store.Apply(ctx, entries, r.current())
	if err == nil {
		r.setProgress(result.Progress)
		r.metrics.events.Add(ctx, int64(result.Events))
		for _, cut := range result.Cuts {
			r.log.WarnContext(ctx, "history replaced the end of a log that the stream continued otherwise",
				telemetry.LogTenant, cut.Tenant, telemetry.LogRequest, cut.RequestID, "from", cut.N, "was", cut.Was, "is", cut.Is)
		}
		return result.Errors, nil
	}
	if !errors.Is(err, store.ErrRefused) {
		return nil, err
	}
	if len(entries) == 1 {
		r.log.ErrorContext(ctx, "the database refuses an entry", "sequence", entries[0].Sequence, "error", err)
		return []error{err}, nil
	}
	half := len(entries) / 2
	first, err := r.put(ctx, entries[:half])
	if err != nil {
		return nil, err
	}
	second, err := r.put(ctx, entries[half:])
	return append(first, second...), err
}
