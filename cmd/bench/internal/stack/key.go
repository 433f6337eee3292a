package stack

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
)

// pepper is of this benchmark alone: its streams are gone when it ends.
const pepper = "the pepper of a benchmark on loopback"

// Key makes an API key for a tenant. The gateway learns of it a moment later.
func (s *Stack) Key(ctx context.Context, tenant string) (string, error) {
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		return "", err
	}
	b, err := bus.Connect(ctx, bus.Options{URL: "nats://" + s.NATSAddr, Name: "bench"})
	if err != nil {
		return "", fmt.Errorf("make a key for %s: %w", tenant, err)
	}
	defer b.Close()
	if err := b.Verify(ctx); err != nil {
		return "", fmt.Errorf("make a key for %s: %w", tenant, err)
	}
	key, record, err := issuer.New(tenant, "bench", nil, 0, nil)
	if err != nil {
		return "", fmt.Errorf("make a key for %s: %w", tenant, err)
	}
	if err := b.PutKey(ctx, bus.KeyRecord(record)); err != nil {
		return "", fmt.Errorf("make a key for %s: %w", tenant, err)
	}
	return key, nil
}
