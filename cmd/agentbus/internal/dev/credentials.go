package dev

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
)

// credentials are the secrets of a stack that requires API keys.
type credentials struct {
	pepper []byte
	key    string
}

// PepperFile is the file in the data folder with the pepper of API keys.
const PepperFile = "key-pepper"

// HubSecretFile is the file in the data folder with the secret that encrypts the keys of remote agents.
const HubSecretFile = "hub-secret"

// openCredentials creates a key for the developer. It revokes the key of an earlier run, which was shown once and
// cannot be read again.
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

// secret returns the given secret, or the one in the data folder, or else a new one.
func (s *stack) secret(given, file string) ([]byte, error) {
	if given != "" {
		return []byte(given), nil
	}
	if s.data == nil {
		return []byte(rand.Text()), nil
	}
	return s.data.Secret(file)
}
