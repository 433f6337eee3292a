package task

import (
	"context"
	"time"
)

// trimEvery is how often old tasks are deleted.
const trimEvery = time.Hour

// Trim deletes the tasks that ended longer than keep ago until ctx is done. Tasks whose costs count are kept.
func (d *Service) Trim(ctx context.Context, keep time.Duration) error {
	keep = max(keep, d.budget.Per.Or(defaultPeriod))
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		n, err := d.store.Trim(ctx, d.registry.Now().Add(-keep))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			d.log.WarnContext(ctx, "old tasks could not be deleted", "error", err)
		case n > 0:
			d.log.InfoContext(ctx, "old tasks were deleted", "tasks", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
