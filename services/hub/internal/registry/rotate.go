package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// Rotate replaces the key of an agent without a rejected request (TARS hub protocol, Key rotation): the agent accepts
// both keys from before the hub uses the new one until the overlap is over. A key that the agent has already
// (AGENT_KEYS) is only checked; any other, or a generated one if key is "", is sent to it.
func (r *Registry) Rotate(ctx context.Context, a store.Agent, key string) (until time.Time, err error) {
	if key == "" {
		key = rand.Text() + rand.Text()
	} else if c := (Candidate{URL: a.URL, APIKey: key}); c.check() != nil {
		return time.Time{}, c.check()
	}
	if err := r.introduce(ctx, a, key); err != nil {
		return time.Time{}, err
	}
	until = r.Now().Add(r.Overlap).UTC().Truncate(time.Second)
	err = r.Store.Rotate(ctx, a, r.Vault.Seal(a.ID, key), until)
	if errors.Is(err, store.ErrNotFound) {
		return until, apierr.New(apierr.ThreadBusy, "the key of agent %s was replaced meanwhile; try again", a.ID)
	}
	if err == nil {
		r.Log.InfoContext(ctx, "the key of an agent was replaced", telemetry.LogAgent, a.ID, "oldUntil", until)
	}
	return until, err
}

// introduce sees to it that the agent takes a new key.
func (r *Registry) introduce(ctx context.Context, a store.Agent, key string) error {
	fresh := r.client(a.URL, key)
	_, err := fresh.Health(ctx)
	if err == nil {
		return nil
	}
	refusal, refused := errors.AsType[*remoteagent.Refusal](err)
	if !refused || refusal.HTTP != http.StatusUnauthorized && refusal.HTTP != http.StatusForbidden {
		return strange(a.URL, err)
	}
	old, err := r.Client(a)
	if err != nil {
		return err
	}
	if _, err := old.Rotate(ctx, remoteagent.Rotation{Key: key, OverlapSeconds: int(r.Overlap.Seconds())}); err != nil {
		return strange(a.URL, err)
	}
	if _, err := fresh.Health(ctx); err != nil {
		return strange(a.URL, err)
	}
	return nil
}
