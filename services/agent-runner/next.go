package agentrunner

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/bus"
)

// next points the runners at the request whose turn has come on a thread, if one waits there behind the one with that
// index (-1 = look at all). Whoever puts a request on a busy thread looks once more whether it is still busy, and whoever
// ends a request comes here after its terminal event: one of the two sees the other. It reports whether it sent a pointer.
func (r *Runner) next(ctx context.Context, tenant, threadID string, index int) (sent bool, err error) {
	newest, err := r.deps.Bus.Thread(ctx, tenant, threadID)
	if errors.Is(err, bus.ErrNotFound) || err == nil && (newest.Deleted || newest.Index <= index) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for record, err := range r.deps.Bus.ThreadRecords(ctx, tenant, threadID, 0) {
		if err != nil {
			return false, err
		}
		if record.Index < newest.Index-newest.Behind {
			continue
		}
		last, err := r.deps.Bus.Last(ctx, bus.LogID{Tenant: tenant, RequestID: record.RequestID})
		switch {
		case err == nil && last.Terminal():
			continue
		case err == nil:
			return false, nil // it runs, and whoever ends it looks again
		case !errors.Is(err, bus.ErrNotFound):
			return false, err
		}
		return r.begin(ctx, bus.LogID{Tenant: tenant, RequestID: record.RequestID}, record.Index)
	}
	return false, nil
}

func (r *Runner) begin(ctx context.Context, log bus.LogID, index int) (sent bool, err error) {
	accepted, err := r.deps.Bus.Accepted(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil // the stream has forgotten it
	}
	if err != nil {
		return false, err
	}
	return r.deps.Bus.EnsurePointer(ctx, accepted, index)
}
