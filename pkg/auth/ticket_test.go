package auth_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
)

func TestTickets(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	now := time.Now()
	key, r := issue(t, issuer, "ann", time.Hour)
	_, other := issue(t, issuer, "ben", time.Hour)
	ring.Put(r)
	ring.Put(other)
	ticket, err := ring.Ticket(r.ID, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(key, r.ID+"_")
	if strings.Contains(ticket, secret) {
		t.Error("the ticket has the secret of the key")
	}
	p, err := ring.VerifyTicket(ticket, now)
	if err != nil || p.Subject != "ann" || p.Tenant != "acme" || p.KeyID != r.ID {
		t.Errorf("got %+v, %v, want the principal of the key", p, err)
	}
	later, err := ring.Ticket(r.ID, now.Add(3*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(ticket, ".")
	for name, refused := range map[string]struct {
		ticket string
		at     time.Time
	}{
		"after its end":                  {ticket, now.Add(time.Minute)},
		"after the end of its key":       {later, now.Add(2 * time.Hour)},
		"with a later end":               {parts[0] + ".99999999999." + parts[2], now},
		"with another key":               {other.ID + "." + parts[1] + "." + parts[2], now},
		"of a key that does not exist":   {"ak_none." + parts[1] + "." + parts[2], now},
		"without a signature":            {parts[0] + "." + parts[1] + ".", now},
		"that is the key":                {key, now},
		"that is empty":                  {"", now},
		"that has one part only":         {"x", now},
		"whose signature has a new end":  {ticket + "x", now},
		"whose time is not a number":     {parts[0] + ".x." + parts[2], now},
		"that names the key and no time": {parts[0] + "." + parts[2], now},
	} {
		if p, err := ring.VerifyTicket(refused.ticket, refused.at); apierr.CodeOf(err) != apierr.AuthFailed {
			t.Errorf("a ticket %s: got %+v, %v, want auth_failed", name, p, err)
		}
	}
	r.Revoked = true
	ring.Put(r)
	if _, err := ring.VerifyTicket(ticket, now); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("a ticket of a revoked key: got %v, want auth_failed", err)
	}
	if _, err := ring.Ticket("ak_none", now); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("a ticket for a key that does not exist: got %v, want auth_failed", err)
	}
}

func TestATicketIsValidForEachKeyringWithTheSamePepper(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	_, r := issue(t, issuer, "ann", time.Hour)
	_, other := pair(t)
	another, err := auth.NewIssuer([]byte(strings.Repeat("another pepper ", 4)))
	if err != nil {
		t.Fatal(err)
	}
	foreign := auth.NewKeyring(another)
	foreign.Loaded()
	for _, k := range []*auth.Keyring{ring, other, foreign} {
		k.Put(r)
	}
	ticket, err := ring.Ticket(r.ID, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.VerifyTicket(ticket, time.Now()); err != nil {
		t.Errorf("another gateway: got %v", err)
	}
	if _, err := foreign.VerifyTicket(ticket, time.Now()); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("a keyring with another pepper: got %v, want auth_failed", err)
	}
}

func FuzzVerifyTicket(f *testing.F) {
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		f.Fatal(err)
	}
	ring := auth.NewKeyring(issuer)
	ring.Loaded()
	_, r, err := issuer.New("acme", "ann", nil, time.Hour, nil)
	if err != nil {
		f.Fatal(err)
	}
	ring.Put(r)
	now := time.Now()
	good, err := ring.Ticket(r.ID, now.Add(time.Minute))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(r.ID + ".1.x")
	f.Fuzz(func(t *testing.T, ticket string) {
		if p, err := ring.VerifyTicket(ticket, now); err == nil && ticket != good {
			t.Errorf("the ticket %q is valid for %+v", ticket, p)
		}
	})
}

// tokens accepts one token.
type tokens struct{ record auth.Record }

func (v tokens) Verify(_ context.Context, token string) (auth.Record, error) {
	if token != "a.good.token" {
		return auth.Record{}, apierr.New(apierr.AuthFailed, "the token is refused")
	}
	return v.record, nil
}

func TestTheTicketOfATokenIsValidForOtherKeyrings(t *testing.T) {
	t.Parallel()
	now := time.Now()
	issuer, err := auth.NewIssuer([]byte("a pepper of more than 16 bytes"))
	if err != nil {
		t.Fatal(err)
	}
	token := auth.Record{
		ID: auth.TokenPrefix + "1", Tenant: "acme", Subject: "alice", Scopes: []string{"read"}, Hash: []byte("hash"), ExpiresAt: now.Add(time.Hour),
	}
	one, other := auth.NewKeyring(issuer), auth.NewKeyring(issuer)
	one.AcceptTokens(tokens{token})
	one.Loaded()
	other.Loaded()
	if _, err := one.VerifyBearer(t.Context(), "a.bad.token", now); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("got %v, want a refusal", err)
	}
	p, err := one.VerifyBearer(t.Context(), "a.good.token", now)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := one.Ticket(p.KeyID, now.Add(12*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got, err := other.VerifyTicket(ticket, now)
	if err != nil || got.Tenant != "acme" || got.Subject != "alice" || got.May(auth.ScopeRun) {
		t.Errorf("got %+v, %v; want alice of acme, who may read", got, err)
	}
	if at := other.ExpiresAt(p.KeyID); !at.Equal(token.ExpiresAt) {
		t.Errorf("streams end at %s, want %s", at, token.ExpiresAt)
	}
	if _, err := other.VerifyTicket(ticket, now.Add(2*time.Hour)); err == nil {
		t.Error("the ticket is valid after its token has expired")
	}
	parts := strings.Split(ticket, ".")
	parts[2] = base64.RawURLEncoding.EncodeToString([]byte(`{"id":"jwt_1","tenant":"acme","subject":"root","hash":"aGFzaA==","expiresAt":"2100-01-01T00:00:00Z"}`))
	if _, err := other.VerifyTicket(strings.Join(parts, "."), now); err == nil {
		t.Error("a ticket with other claims is valid")
	}
}
