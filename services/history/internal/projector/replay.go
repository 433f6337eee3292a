package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// replay projects again what lies between the progress and its target, while new entries are projected as always.
func (r *Reconciler) replay(ctx context.Context, at store.Progress) error {
	r.log.InfoContext(ctx, "history is being rebuilt from the stream", "from", at.Through+1, "to", at.Target)
	if at.Through == 0 { // rows may have been removed by hand
		if err := r.store.Recount(ctx); err != nil {
			return err
		}
	}
	for at.Behind() {
		entries, next, err := r.source.Entries(ctx, at.Through+1)
		if err != nil {
			return err
		}
		if err := r.again(ctx, entries); err != nil {
			return fmt.Errorf("project the messages from %d again: %w", at.Through+1, err)
		}
		through := next - 1
		if through == at.Through {
			through = at.Target // the stream holds nothing more up to there
		}
		is, err := r.store.MoveProgress(ctx, func(is store.Progress) store.Progress {
			if is.Version >= at.Version && is.Incarnation == at.Incarnation && is.Through >= at.Through {
				is.Through = max(is.Through, min(through, is.Target))
			}
			return is
		})
		if err != nil {
			return err
		}
		if is.Version < at.Version || is.Incarnation != at.Incarnation {
			return store.ErrReplaced // the next look finds out what must be done
		}
		r.moved(is)
		at = is
	}
	r.log.InfoContext(ctx, "history is rebuilt", "to", at.Through)
	return nil
}

// again stores entries. It leaves out what the database refuses: the projection reports that and tries it again.
func (r *Reconciler) again(ctx context.Context, batch []bus.Entry) error {
	if len(batch) == 0 {
		return nil
	}
	entries := stored(batch)
	errs, err := r.projector.apply(ctx, entries)
	if err != nil {
		return err
	}
	r.projector.announce()
	for i, err := range errs {
		if err != nil && !errors.Is(err, store.ErrRefused) {
			return fmt.Errorf("message %d: %w", entries[i].Sequence, err)
		}
	}
	return nil
}
