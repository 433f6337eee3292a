package admission

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
)

const (
	// pastWait bounds the question to history about a key.
	pastWait = 2 * time.Second
	// youngWait bounds it for a key that is too young to be known by history alone.
	youngWait = 300 * time.Millisecond
	// keyRetry is when a client may try again whose key could not be looked up.
	keyRetry = 2 * time.Second
)

// byKey lists the requests that the key of c may have made: a's, and the one of a version in which a key counted per route.
func byKey(c Call, a record.Accepted) []string {
	if c.Key == "" {
		return []string{a.RequestID}
	}
	return []string{a.RequestID, id.Derive(id.Request, a.Tenant, a.Owner, c.Route, c.Key)}
}

// earlier returns the request that was accepted under the same key, if the stream holds its record.
func (d *Acceptor) earlier(ctx context.Context, c Call, a record.Accepted) (record.Accepted, bool, error) {
	for _, requestID := range byKey(c, a) {
		// A hash that Redis remembers was that of the first record, and the first record never changes.
		if hash, found, err := d.state.Recall(ctx, a.Tenant, requestID); err == nil && found && hash != a.BodyHash {
			return a, false, mismatch()
		}
		stored, err := d.bus.Accepted(ctx, bus.LogID{Tenant: a.Tenant, RequestID: requestID})
		if errors.Is(err, bus.ErrNotFound) {
			continue
		}
		if err != nil {
			return a, false, authz.Unavailable(err)
		}
		if stored.BodyHash != a.BodyHash {
			return a, false, mismatch()
		}
		return stored, true, nil
	}
	return a, false, nil
}

// past returns the request that was accepted under the same key, if history knows it: the stream has no record of it. While
// history does not answer, a key that may be older than the stream's records is refused: its request must not run again.
func (d *Acceptor) past(ctx context.Context, c Call, a record.Accepted) (t Receipt, known bool, err error) {
	young, wait := d.young(c.Key), pastWait
	if young {
		wait = youngWait
	}
	if weaken.Without(weaken.OldKeys) {
		return t, false, nil
	}
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	kept, err := d.history.Kept(asking, historyapi.KeptQuery{Tenant: a.Tenant, RequestIDs: byKey(c, a)})
	switch {
	case err != nil && young && ctx.Err() == nil:
		return t, false, nil
	case err != nil:
		f := apierr.Wrap(err, apierr.Unavailable,
			"whether this Idempotency-Key was used before cannot be told now; try again with the same key, or use UUIDv7 as keys")
		f.RetryAfter = keyRetry
		return t, false, f
	case kept.Deleted:
		return t, false, apierr.New(apierr.ThreadNotFound, "the thread on which this Idempotency-Key made a request is deleted")
	case kept.Request == nil:
		return t, false, nil
	case kept.BodyHash != "" && kept.BodyHash != a.BodyHash:
		return t, false, mismatch()
	}
	r := kept.Request
	return Receipt{
		RequestID: r.RequestID, ThreadID: r.ThreadID, AgentID: r.AgentID, Replayed: true, Archived: true, Index: r.Index,
	}, true, nil
}

// young reports whether a key says that it was made so recently that the stream would still hold the record of its request.
// Half of the time that the stream keeps records is left for clocks that differ.
func (d *Acceptor) young(key string) bool {
	made, ok := id.Time(key)
	return ok && time.Since(made).Abs() < d.bus.MaxAge()/2
}

func mismatch() error {
	return apierr.New(apierr.IdempotencyMismatch, "this Idempotency-Key was used with another body; use a new key for a new request")
}
