package rediscache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"
)

// remember is how long a record without an expiry is kept.
const remember = 24 * time.Hour

// Action is an action that a client must take before a thread continues, as the newest request that announced it
// described it.
type Action struct {
	Tenant    string                   `json:"tenant"`
	ActionID  string                   `json:"actionId"`
	ThreadID  string                   `json:"threadId"`
	RequestID string                   `json:"requestId"` // that announced it last
	Kind      event.ContinuationKind   `json:"kind"`
	Payload   event.ContinuationAction `json:"payload"`
	ExpiresAt time.Time                `json:"expiresAt,omitzero"`
}

// PutActions remembers actions until they expire (a day, for those that never do), in one round trip.
func (s *Store) PutActions(ctx context.Context, actions ...Action) error {
	if len(actions) == 0 {
		return nil
	}
	pipe := s.redis.Pipeline()
	for _, a := range actions {
		value, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("put action %s: %w", a.ActionID, err)
		}
		keep := remember
		if !a.ExpiresAt.IsZero() {
			keep = max(time.Until(a.ExpiresAt), time.Second) // Redis takes no expiry in the past
		}
		pipe.Set(ctx, key("action", a.Tenant, a.ActionID), value, keep)
	}
	err := s.do(func() error { _, err := pipe.Exec(ctx); return err })
	if err != nil {
		return fmt.Errorf("put %d actions: %w", len(actions), err)
	}
	return nil
}

// Action returns a pending action. A miss is not conclusive: Redis may have lost it. Neither is a hit: the process that
// resolved the action may have crashed before it removed it. The log of the thread's last request is authoritative.
func (s *Store) Action(ctx context.Context, tenant, actionID string) (Action, bool, error) {
	var value []byte
	err := s.do(func() (err error) {
		value, err = s.redis.Get(ctx, key("action", tenant, actionID)).Bytes()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return Action{}, false, nil
	}
	if err != nil {
		return Action{}, false, fmt.Errorf("get action %s: %w", actionID, err)
	}
	var a Action
	if err := json.Unmarshal(value, &a); err != nil {
		return Action{}, false, fmt.Errorf("decode action %s: %w", actionID, err)
	}
	return a, true, nil
}

// DropActions forgets actions, because they are resolved.
func (s *Store) DropActions(ctx context.Context, tenant string, actionIDs ...string) error {
	if len(actionIDs) == 0 {
		return nil
	}
	keys := make([]string, len(actionIDs))
	for i, id := range actionIDs {
		keys[i] = key("action", tenant, id)
	}
	err := s.do(func() error { return s.redis.Del(ctx, keys...).Err() })
	if err != nil {
		return fmt.Errorf("drop %d actions: %w", len(actionIDs), err)
	}
	return nil
}
