package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/threadqueue"
)

// interruptTimeout is the time for requests to end that a new one interrupts.
const interruptTimeout = 10 * time.Second

// interrupted is the reason of the aborts of an interruption.
const interrupted = "interrupted"

// Abort records the abort of a request. Only the first abort of a request counts.
func (d *Acceptor) Abort(ctx context.Context, tenant string, a record.Abort) error {
	if _, err := d.bus.Abort(ctx, tenant, a); err != nil {
		return err
	}
	if err := d.state.MarkAborted(ctx, tenant, a.RequestID); err != nil {
		d.log.DebugContext(ctx, "abort is not cached", "error", err)
	}
	return nil
}

// interrupt aborts the entries, the running request and the waiting ones, for a. It fails with apierr.ThreadBusy if
// they do not end in time.
func (d *Acceptor) interrupt(ctx context.Context, entries []threadqueue.Entry, a record.Accepted) error {
	wait, cancel := context.WithTimeout(ctx, interruptTimeout)
	defer cancel()
	for _, one := range slices.Backward(entries) { // the running one last: otherwise the next one would start
		abort := record.Abort{RequestID: one.RequestID, By: a.Owner, Reason: interrupted, At: d.bus.Now().UTC()}
		if err := d.Abort(wait, a.Tenant, abort); err != nil {
			return err
		}
	}
	for _, one := range entries {
		err := d.AwaitEnd(wait, bus.LogID{Tenant: a.Tenant, RequestID: one.RequestID})
		if err != nil && errors.Is(wait.Err(), context.DeadlineExceeded) {
			return busy(entries, "request %s was interrupted and has not ended yet; try again", one.RequestID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AwaitEnd waits until a log has its terminal event.
func (d *Acceptor) AwaitEnd(ctx context.Context, log bus.LogID) error {
	last, err := d.bus.Last(ctx, log)
	if err != nil && !errors.Is(err, bus.ErrNotFound) || last.Terminal() {
		return err
	}
	follower, err := d.bus.Follow(ctx, log, last.Next())
	if err != nil {
		return err
	}
	defer follower.Close()
	for {
		f, err := follower.Next(ctx, interruptTimeout)
		if f.Terminal() || err != nil && !errors.Is(err, bus.ErrIdle) {
			return err
		}
	}
}

// busy returns the refusal of a request because of the entries before it. It names the running one, or the one that may
// start.
func busy(entries []threadqueue.Entry, format string, args ...any) error {
	f := apierr.New(apierr.ThreadBusy, format, args...)
	f.RequestID = entries[0].RequestID
	return f
}
