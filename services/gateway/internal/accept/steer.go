package accept

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/services/gateway/internal/access"
	"github.com/go-json-experiment/json"
)

// Steer records what somebody says to a request that runs or waits, or says why not: fault.RequestFinished,
// IdempotencyMismatch, MessageTooLarge, Unavailable. Replayed says that the same steer was recorded before. Whoever runs
// the request may have ended it in the same moment: then nobody reads the steer.
func (d *Desk) Steer(ctx context.Context, r access.Request, s command.Steer) (replayed bool, err error) {
	if r.Past {
		return false, finished()
	}
	if s.Messages, err = d.shelve(ctx, r.Tenant, r.ThreadID, s.Messages); err != nil {
		return false, access.Unavailable(err)
	}
	last, err := d.bus.Last(ctx, r.Log())
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return false, access.Unavailable(err)
	}
	if last.Terminal() {
		return d.steered(ctx, r, s)
	}
	stored, first, err := d.bus.Steer(ctx, r.Tenant, s)
	if err != nil {
		return false, access.Unavailable(err)
	}
	return !first, same(stored, s)
}

// steered answers for a request that has ended: a retry of a steer that came in time is none that comes too late.
func (d *Desk) steered(ctx context.Context, r access.Request, s command.Steer) (replayed bool, err error) {
	for stored, err := range d.bus.Steers(ctx, r.Log(), 0) {
		if err != nil {
			return false, access.Unavailable(err)
		}
		if stored.SteerID == s.SteerID {
			return true, same(stored.Steer, s)
		}
	}
	return false, finished()
}

// same is a fault unless both say the same.
func same(stored, s command.Steer) error {
	before, err := json.Marshal(stored.Messages)
	if err != nil {
		return err
	}
	now, err := json.Marshal(s.Messages)
	if err != nil {
		return err
	}
	if Hash("", before) != Hash("", now) {
		return mismatch()
	}
	return nil
}

func finished() error {
	return fault.New(fault.RequestFinished, "the request has ended; say it in a follow-up")
}
