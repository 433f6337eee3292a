// Package auth creates and checks API keys, and defines the principal of a request. The gateway checks keys, the
// command line creates them.
//
// A key is "ak_<id>_<secret>". Only an HMAC of the secret is stored: a secret has 256 random bits, so that a slow hash
// would add no protection, and without the pepper the records are useless.
package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/id"
)

// Scope is something that a key may do.
type Scope string

// The scopes. A key without scopes may do everything.
const (
	ScopeRead Scope = "read" // agents, threads, requests and their streams
	ScopeRun  Scope = "run"  // start and abort requests, delete threads

	ScopeAgents Scope = "agents" // register, change and remove remote agents

	ScopeToolOutput Scope = "tool_output" // read the output of tools, where the agent shows it
)

// Scopes lists every scope.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeRun, ScopeAgents, ScopeToolOutput} }

// Principal is the owner of a request.
type Principal struct {
	Tenant  string
	Subject string
	Scopes  []Scope
	KeyID   string
}

// Dev is the principal of every request while authentication is off.
func Dev() Principal { return Principal{Tenant: "default", Subject: "dev"} }

// May reports whether p has scope s.
func (p Principal) May(s Scope) bool { return len(p.Scopes) == 0 || slices.Contains(p.Scopes, s) }

// LimitID names what limits of keys count: a key, or all tokens of a user, who gets a new one each hour. It is "" without
// authentication.
func (p Principal) LimitID() string {
	if !strings.HasPrefix(p.KeyID, TokenPrefix) {
		return p.KeyID
	}
	return id.Derive("usr", p.Tenant, p.Subject)
}

// Record is what is kept of a key.
type Record struct {
	ID        string    `json:"id"` // ak_<id>
	Tenant    string    `json:"tenant"`
	Subject   string    `json:"subject"`
	Scopes    []string  `json:"scopes,omitempty"`
	Hash      []byte    `json:"hash"` // HMAC-SHA-256 of the secret, under the pepper
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	Revoked   bool      `json:"revoked,omitzero"`
}

// Active reports whether the key opens anything at time now.
func (r Record) Active(now time.Time) bool {
	return !r.Revoked && (r.ExpiresAt.IsZero() || now.Before(r.ExpiresAt))
}

// MaxActive is how many keys of one principal may be active: a new one and the one that it replaces.
const MaxActive = 2

// MinPepper is the shortest pepper, in bytes.
const MinPepper = 16

// Issuer makes keys.
type Issuer struct {
	pepper []byte
	now    func() time.Time
}

// NewIssuer returns an issuer. The gateways must have the same pepper.
func NewIssuer(pepper []byte) (*Issuer, error) {
	if len(pepper) < MinPepper {
		return nil, fmt.Errorf("the key pepper (KEY_PEPPER) has %d bytes; set it to at least %d random ones, such as those of openssl rand -hex 32",
			len(pepper), MinPepper)
	}
	return &Issuer{pepper: slices.Clone(pepper), now: time.Now}, nil
}

// WithClock returns an issuer that reads the time from now: a key expires by the clock of the services that verify it, which
// is the broker's.
func (i *Issuer) WithClock(now func() time.Time) *Issuer { return &Issuer{pepper: i.pepper, now: now} }

// New makes a key for subject of tenant. A ttl of 0 never expires; no scopes are all of them. The key itself is returned
// once and kept nowhere. Existing is every record there is: New refuses a third active key for one principal.
func (i *Issuer) New(tenant, subject string, scopes []Scope, ttl time.Duration, existing []Record) (key string, r Record, err error) {
	now := i.now().UTC().Truncate(time.Millisecond)
	if err := check(tenant, subject, scopes, ttl); err != nil {
		return "", Record{}, err
	}
	if n := countActive(existing, tenant, subject, now); n >= MaxActive {
		return "", Record{}, fmt.Errorf("%s of tenant %s has %d active keys already; revoke one first", subject, tenant, n)
	}
	secret := newSecret()
	r = Record{ID: id.New(id.Key), Tenant: tenant, Subject: subject, Hash: digest(i.pepper, secret), CreatedAt: now}
	for _, s := range scopes {
		r.Scopes = append(r.Scopes, string(s))
	}
	if ttl > 0 {
		r.ExpiresAt = now.Add(ttl)
	}
	return r.ID + "_" + secret, r, nil
}

// Check returns an error if the record cannot be that of a principal.
func (r Record) Check() error {
	scopes := make([]Scope, len(r.Scopes))
	for i, s := range r.Scopes {
		scopes[i] = Scope(s)
	}
	return check(r.Tenant, r.Subject, scopes, 0)
}

func check(tenant, subject string, scopes []Scope, ttl time.Duration) error {
	if !id.Valid(tenant) {
		return fmt.Errorf("tenant %.80q must match ^[A-Za-z0-9_-]{1,64}$", tenant)
	}
	if subject == "" || len(subject) > 256 || strings.ContainsFunc(subject, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("subject %.80q must have 1 to 256 printable characters", subject)
	}
	for _, s := range scopes {
		if !slices.Contains(Scopes(), s) {
			return fmt.Errorf("scope %.80q is not one of %v", s, Scopes())
		}
	}
	if ttl < 0 {
		return fmt.Errorf("a key cannot have expired %v ago", -ttl)
	}
	return nil
}

func countActive(records []Record, tenant, subject string, now time.Time) int {
	n := 0
	for _, r := range records {
		if r.Tenant == tenant && r.Subject == subject && r.Active(now) {
			n++
		}
	}
	return n
}

// newSecret has no '_', so that a key is taken apart at the last one.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the process ends instead
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

func digest(pepper []byte, secret string) []byte {
	mac := hmac.New(sha256.New, pepper)
	mac.Write([]byte(secret))
	return mac.Sum(nil)
}
