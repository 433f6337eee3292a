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
	// historyTimeout limits the lookup of a key in history.
	historyTimeout = 2 * time.Second
	// recentKeyTimeout limits that lookup for a key so recent that the stream must have its record.
	recentKeyTimeout = 300 * time.Millisecond
	// keyRetry is the Retry-After if a key could not be looked up.
	keyRetry = 2 * time.Second
)

// requestsByKey returns the requests that the key of c may name: a's, and the one of earlier versions, in which a key
// belonged to a route.
func requestsByKey(c Call, a record.Accepted) []string {
	if c.Key == "" {
		return []string{a.RequestID}
	}
	return []string{a.RequestID, id.Derive(id.Request, a.Tenant, a.Owner, c.Route, c.Key)}
}

// storedByKey returns the request that was accepted with the same key, if the stream holds its record.
func (d *Acceptor) storedByKey(ctx context.Context, c Call, a record.Accepted) (record.Accepted, bool, error) {
	for _, requestID := range requestsByKey(c, a) {
		// The hash in Redis is that of the first record, which never changes.
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

// archivedByKey returns the request that was accepted with the same key, if only history has it. While history does not
// answer, a key that may be older than the stream's records is refused, because its request must not run again.
func (d *Acceptor) archivedByKey(ctx context.Context, c Call, a record.Accepted) (t Receipt, known bool, err error) {
	young, wait := d.isRecentKey(c.Key), historyTimeout
	if young {
		wait = recentKeyTimeout
	}
	if weaken.Without(weaken.OldKeys) {
		return t, false, nil
	}
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	kept, err := d.history.Kept(asking, historyapi.KeptQuery{Tenant: a.Tenant, RequestIDs: requestsByKey(c, a)})
	switch {
	case err != nil && young && ctx.Err() == nil:
		return t, false, nil
	case err != nil:
		f := apierr.Wrap(err, apierr.Unavailable,
			"it is unknown now whether this Idempotency-Key was used before; try again with the same key, or use UUIDv7 as keys")
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

// isRecentKey reports whether a key contains a time so recent that the stream must still have the record of its
// request. Half of the stream's retention is allowed for clocks that differ.
func (d *Acceptor) isRecentKey(key string) bool {
	made, ok := id.Time(key)
	return ok && time.Since(made).Abs() < d.bus.MaxAge()/2
}

func mismatch() error {
	return apierr.New(apierr.IdempotencyMismatch, "this Idempotency-Key was used with another body; use a new key for a new request")
}
