package admission

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/go-json-experiment/json"
)

// maxSteers is how often a request may be steered. Each steer is stored with the request and read by the model.
const maxSteers = 100

// Steer records a message to a request that runs or waits, or returns apierr.RequestFinished, IdempotencyMismatch,
// MessageTooLarge, RateLimitExceeded or Unavailable. Replayed reports that the same steer was recorded before. If the
// request ends at the same moment, the steer is not read. Refusal is the error for a new steer, nil for none; a retry
// of a recorded steer succeeds all the same.
func (d *Acceptor) Steer(ctx context.Context, r authz.Request, s record.Steer, refusal error) (replayed bool, err error) {
	if r.Archived {
		return false, finished()
	}
	large, err := offloadMedia(&s.Messages, new([]event.HistoryMessage))
	if err != nil {
		return false, err
	}
	if err := bus.CheckSteer(s, r.ThreadID, r.AgentID); err != nil {
		return false, authz.Unavailable(err)
	}
	last, err := d.bus.Last(ctx, r.Log())
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return false, authz.Unavailable(err)
	}
	said, before, err := d.steers(ctx, r, s.SteerID)
	switch {
	case err != nil:
		return false, authz.Unavailable(err)
	case before != nil: // a retry of a steer that was recorded before the request ended
		return true, sameSteer(*before, s)
	case last.Terminal():
		return false, finished()
	case said >= maxSteers:
		return false, tooManySteers()
	case refusal != nil:
		return false, refusal
	}
	if err := d.upload(ctx, r.Tenant, r.ThreadID, large); err != nil {
		return false, authz.Unavailable(err)
	}
	stored, first, err := d.bus.Steer(ctx, r.Tenant, s)
	if err != nil {
		return false, authz.Unavailable(err)
	}
	return !first, sameSteer(stored, s)
}

// steers counts the steers of a request, and returns the one with an id, nil without one.
func (d *Acceptor) steers(ctx context.Context, r authz.Request, steerID string) (count int, found *record.Steer, err error) {
	for stored, err := range d.bus.Steers(ctx, r.Log(), 0) {
		if err != nil {
			return count, nil, err
		}
		if stored.SteerID == steerID {
			found = &stored.Steer
		}
		count++
	}
	return count, found, nil
}

// sameSteer returns an error unless both have the same messages.
func sameSteer(stored, s record.Steer) error {
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
	return apierr.New(apierr.RequestFinished, "the request has ended; say it in a follow-up")
}

func tooManySteers() error {
	f := apierr.New(apierr.RateLimitExceeded, "the request was steered %d times, which is the most; say it in a follow-up", maxSteers)
	f.Retryable = false
	return f
}
