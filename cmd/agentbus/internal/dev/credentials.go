package dev

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
)

// credentials are what a stack that asks for keys works with.
type credentials struct {
	pepper []byte
	key    string
}

// PepperFile is where a stack with a data folder keeps what it hashes keys with.
const PepperFile = "key-pepper"

// HubSecretFile is where it keeps what the keys of remote agents are sealed with.
const HubSecretFile = "hub-secret"

// openCredentials makes a key for the developer. The key of an earlier run is revoked: it was shown once, and is
// nowhere to be read.
func (s *stack) openCredentials(ctx context.Context, b *bus.Bus) (credentials, error) {
	pepper, err := s.pepper()
	if err != nil {
		return credentials{}, err
	}
	issuer, err := auth.NewIssuer(pepper)
	if err != nil {
		return credentials{}, err
	}
	records, err := b.Keys(ctx)
	if err != nil {
		return credentials{}, err
	}
	who := auth.Dev()
	now := time.Now()
	var existing []auth.Record
	for _, r := range records {
		if r.Tenant == who.Tenant && r.Subject == who.Subject && auth.Record(r).Active(now) {
			r.Revoked = true
			if err := b.PutKey(ctx, r); err != nil {
				return credentials{}, err
			}
		}
		existing = append(existing, auth.Record(r))
	}
	key, record, err := issuer.New(who.Tenant, who.Subject, nil, 0, existing)
	if err != nil {
		return credentials{}, err
	}
	if err := b.PutKey(ctx, bus.KeyRecord(record)); err != nil {
		return credentials{}, err
	}
	return credentials{pepper, key}, nil
}

func (s *stack) pepper() ([]byte, error) { return s.secret(s.options.Pepper, PepperFile) }

// secret is the one given, else the one in the data folder, else a new one.
func (s *stack) secret(given, file string) ([]byte, error) {
	if given != "" {
		return []byte(given), nil
	}
	if s.data == nil {
		return []byte(rand.Text()), nil
	}
	return s.data.Secret(file)
}
