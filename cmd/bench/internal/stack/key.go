package stack

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
)

// pepper belongs to this benchmark, whose streams are deleted at its end.
const pepper = "the pepper of a benchmark on loopback"

// Key creates an API key for a tenant. The gateway loads it a moment later.
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
