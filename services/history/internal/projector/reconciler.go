package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// Source is the stream that a reconciler compares the database with. A *bus.Bus is one.
type Source interface {
	Incarnation() string
	LastSequence(ctx context.Context) (uint64, error)
	Projected(ctx context.Context) (bus.Projected, error)
	Entries(ctx context.Context, from uint64) (entries []bus.Entry, next uint64, err error)
}

const (
	// compareEvery is the time between two looks of a reconciler.
	compareEvery = time.Second
	// compareWait bounds the questions of one look.
	compareWait = 10 * time.Second
	// trusted is how long the last look counts. The database may have been restored during a longer pause, so that the next
	// look assumes nothing.
	trusted = 30 * time.Second
)

// Behind reports that the database lacks a part of the stream, which is being projected again.
type Behind struct {
	Through, Target uint64 // sequences in the stream; Target is 0 when it is not known yet
}

func (b *Behind) Error() string {
	if b.Target == 0 {
		return "the database of history has not been compared with the stream yet"
	}
	return fmt.Sprintf("history is being rebuilt from the stream and is at message %d of %d", b.Through, b.Target)
}

// Reconciler keeps the database complete. The consumer of the stream records which messages were delivered, but not
// whether the database still has them: it may have been emptied, or replaced by a backup. Therefore the database has a
// separate progress, which is updated in the transaction of the data. A reconciler compares the two at the start and
// then every second, and projects again the messages that the database lacks. Any number of reconcilers may work on one
// database, since storing an entry twice changes nothing.
type Reconciler struct {
	store     store.Keeper
	source    Source
	projector *Projector
	log       *slog.Logger

	mu     sync.Mutex
	seen   store.Progress // at the last look
	looked time.Time      // zero = the database has not been compared yet
	empty  bool           // whether the database was empty at the last look
}

// NewReconciler returns a reconciler that stores with a projector.
func NewReconciler(s store.Keeper, source Source, r *Projector, log *slog.Logger) *Reconciler {
	return &Reconciler{store: s, source: source, projector: r, log: log}
}

// Run looks every second until ctx is done.
func (r *Reconciler) Run(ctx context.Context) {
	failed := false
	for {
		err := r.look(ctx)
		if failed != (err != nil) && ctx.Err() == nil {
			if failed = !failed; failed {
				r.log.WarnContext(ctx, "history cannot compare its database with the stream; it tries until it can", "error", err)
			} else {
				r.log.InfoContext(ctx, "history compares its database with the stream again")
			}
		}
		timer := time.NewTimer(compareEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Ready returns a *Behind if the last check found that the database lacks a part of the stream, else nil.
func (r *Reconciler) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looked.IsZero() {
		return &Behind{}
	}
	return behind(r.seen)
}

// Check reads the database. It returns a *Behind if the database lacks a part of the messages that were delivered to
// the consumer, even if no periodic check has found that yet.
func (r *Reconciler) Check(ctx context.Context) error {
	known := r.projector.current()
	is, empty, err := r.read(ctx)
	if errors.Is(err, store.ErrNoTables) {
		return &Behind{}
	}
	if err != nil {
		return err
	}
	if r.replaced(is, empty, known) {
		return &Behind{}
	}
	if err := behind(is); err != nil {
		return err
	}
	return r.Ready() // last: a look may have lost its trust in what was read
}

func behind(p store.Progress) error {
	if p.Behind() {
		return &Behind{p.Through, p.Target}
	}
	return nil
}

func (r *Reconciler) read(ctx context.Context) (is store.Progress, empty bool, err error) {
	if is, err = r.store.Progress(ctx); err != nil {
		return is, false, err
	}
	empty, err = r.store.Empty(ctx)
	return is, empty, err
}

// replaced reports whether the database is not a later state of the one that this process has seen. Known must have been
// read before the database.
func (r *Reconciler) replaced(is store.Progress, empty bool, known store.Known) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return is.Version < known.Version || is.Incarnation != r.source.Incarnation() || empty && !r.empty
}

// look compares once, and projects again what the database lacks.
func (r *Reconciler) look(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, compareWait)
	defer cancel()
	is, err := r.compare(asking)
	if errors.Is(err, store.ErrNoTables) {
		r.log.ErrorContext(ctx, "the tables of history are missing; it makes them again", "error", err)
		return r.store.Migrate(asking)
	}
	if err != nil || !is.Behind() {
		return err
	}
	return r.replay(ctx, is)
}

// distrust resets this process's view of the database. It first marks the database as incomplete: see Check.
func (r *Reconciler) distrust() {
	r.mu.Lock()
	r.looked = time.Time{}
	r.mu.Unlock()
	r.projector.forget()
}

func (r *Reconciler) compare(ctx context.Context) (store.Progress, error) {
	r.mu.Lock()
	fresh := !r.looked.IsZero() && time.Since(r.looked) < trusted
	r.mu.Unlock()
	if !fresh {
		return r.restart(ctx)
	}
	known := r.projector.current()
	projected, err := r.source.Projected(ctx) // before the database is read: what is acknowledged, it holds
	if err != nil {
		return store.Progress{}, err
	}
	is, empty, err := r.read(ctx)
	if err != nil {
		return is, err
	}
	if r.replaced(is, empty, known) {
		if is.Incarnation == "" && is.Version >= known.Version && !empty {
			r.log.InfoContext(ctx, "a rebuild of history was asked for")
		} else {
			r.log.ErrorContext(ctx, "the database of history was emptied or replaced; it projects the stream again",
				"from", is.Through, "version", is.Version, "expected", known.Version)
		}
		return r.restart(ctx)
	}
	if projected.Through > is.Through && !is.Behind() {
		if is, err = r.advance(ctx, is, projected.Through); err != nil {
			return is, err
		}
	}
	r.setState(is, empty)
	if !is.Behind() {
		r.projector.reached(store.Known{Through: min(projected.Through, is.Through), Version: is.Version})
	}
	return is, nil
}

// advance moves the progress of a stream that is quiet: otherwise the batches move it.
func (r *Reconciler) advance(ctx context.Context, was store.Progress, through uint64) (store.Progress, error) {
	return r.store.MoveProgress(ctx, func(is store.Progress) store.Progress {
		if is.Version >= was.Version && is.Incarnation == was.Incarnation && !is.Behind() {
			is.Through = max(is.Through, through)
		}
		return is
	})
}

// restart compares without any knowledge of the database. Everything that the consumer was given after the progress of the
// database may be missing there, and is projected again; all of it where the database is empty, or of another stream.
func (r *Reconciler) restart(ctx context.Context) (store.Progress, error) {
	r.distrust()
	projected, err := r.source.Projected(ctx)
	if err != nil {
		return store.Progress{}, err
	}
	head, err := r.source.LastSequence(ctx)
	if err != nil {
		return store.Progress{}, err
	}
	empty, err := r.store.Empty(ctx)
	if err != nil {
		return store.Progress{}, err
	}
	incarnation := r.source.Incarnation()
	is, err := r.store.MoveProgress(ctx, func(is store.Progress) store.Progress {
		if empty || is.Incarnation != incarnation || is.Through > head {
			is.Incarnation, is.Through, is.Target = incarnation, 0, 0
		}
		if is.Through < projected.Given {
			is.Target = max(is.Target, head)
		}
		return is
	})
	if err == nil {
		r.setState(is, empty)
	}
	return is, err
}

func (r *Reconciler) setState(is store.Progress, empty bool) {
	r.moved(is)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty = empty
}

func (r *Reconciler) moved(is store.Progress) {
	r.projector.setProgress(is)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen, r.looked = is, time.Now()
}
