package auth_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/id"
)

const pepper = "0123456789abcdef0123456789abcdef"

func TestAKeyOpensWhatItWasMadeFor(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	key, record := issue(t, issuer, "alice", time.Hour)
	if !strings.HasPrefix(key, record.ID+"_") || !id.Valid(record.ID) || !strings.HasPrefix(record.ID, "ak_") {
		t.Errorf("got key %q with id %q", key, record.ID)
	}
	if bytes.Contains(record.Hash, []byte(key[len(record.ID)+1:])) {
		t.Error("the record holds the secret")
	}
	ring.Put(record)
	p, err := ring.Verify(key, time.Now())
	if err != nil || p.Tenant != "acme" || p.Subject != "alice" || p.KeyID != record.ID {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	key, record := issue(t, issuer, "alice", time.Hour)
	ring.Put(record)
	otherKey, _ := issue(t, issuer, "bob", time.Hour)
	revokedKey, revoked := issue(t, issuer, "carol", time.Hour)
	revoked.Revoked = true
	ring.Put(revoked)

	stranger, err := auth.NewIssuer([]byte("another pepper, long enough"))
	if err != nil {
		t.Fatal(err)
	}
	strangerKey, strange := issue(t, stranger, "dave", 0)
	ring.Put(strange)

	tests := []struct {
		what string
		key  string
		now  time.Time
	}{
		{"an empty key", "", time.Now()},
		{"an id alone", record.ID, time.Now()},
		{"an empty secret", record.ID + "_", time.Now()},
		{"a wrong secret", key[:len(key)-1] + "!", time.Now()},
		{"a longer secret", key + "0", time.Now()},
		{"another case", strings.ToUpper(key), time.Now()},
		{"a key without a record", otherKey, time.Now()},
		{"another key's secret", record.ID + otherKey[strings.LastIndexByte(otherKey, '_'):], time.Now()},
		{"a key under another pepper", strangerKey, time.Now()},
		{"a revoked key", revokedKey, time.Now()},
		{"a key that expired just now", key, record.ExpiresAt},
		{"a key that expired a second ago", key, record.ExpiresAt.Add(time.Second)},
	}
	for _, test := range tests {
		p, err := ring.Verify(test.key, test.now)
		if apierr.CodeOf(err) != apierr.AuthFailed || p.Tenant != "" {
			t.Errorf("%s: got %+v, %v, want auth_failed", test.what, p, err)
			continue
		}
		if !strings.Contains(err.Error(), "Authorization: Bearer ak_") {
			t.Errorf("%s: %q does not say what to send", test.what, err)
		}
	}
	if _, err := ring.Verify(key, record.ExpiresAt.Add(-time.Millisecond)); err != nil {
		t.Errorf("just before it expires: got %v", err)
	}
}

func TestCheckGoesByTheNewestRecordOfAKey(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	_, record := issue(t, issuer, "alice", time.Hour)
	if err := ring.Check(record.ID, time.Now()); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("an unknown key: got %v", err)
	}
	ring.Put(record)
	if err := ring.Check(record.ID, time.Now()); err != nil {
		t.Errorf("an active key: got %v", err)
	}
	if err := ring.Check(record.ID, record.ExpiresAt); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("an expired key: got %v", err)
	}
	record.Revoked = true
	ring.Put(record)
	if err := ring.Check(record.ID, time.Now()); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("a revoked key: got %v", err)
	}
}

func TestNoKeyIsWrongBeforeTheKeysAreLoaded(t *testing.T) {
	t.Parallel()
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		t.Fatal(err)
	}
	ring := auth.NewKeyring(issuer)
	if _, err := ring.Verify("ak_x_y", time.Now()); apierr.CodeOf(err) != apierr.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestAPrincipalHasTwoActiveKeysForRotation(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	var records []auth.Record
	for range auth.MaxActive {
		key, r, err := issuer.New("acme", "alice", nil, 0, records)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
		ring.Put(r)
		if _, err := ring.Verify(key, time.Now()); err != nil {
			t.Errorf("got %v, want both keys to open", err)
		}
	}
	if _, _, err := issuer.New("acme", "alice", nil, 0, records); err == nil {
		t.Error("got a third active key")
	}
	for _, other := range [][2]string{{"acme", "bob"}, {"globex", "alice"}} {
		if _, _, err := issuer.New(other[0], other[1], nil, 0, records); err != nil {
			t.Errorf("%v: got %v", other, err)
		}
	}
	records[0].Revoked = true
	if _, _, err := issuer.New("acme", "alice", nil, 0, records); err != nil {
		t.Errorf("after one was revoked: got %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	issuer, _ := pair(t)
	tests := []struct {
		what            string
		tenant, subject string
		scopes          []auth.Scope
		ttl             time.Duration
	}{
		{"no tenant", "", "alice", nil, 0},
		{"a tenant that is a wildcard", ">", "alice", nil, 0},
		{"a tenant with a dot", "a.b", "alice", nil, 0},
		{"no subject", "acme", "", nil, 0},
		{"a subject with a line break", "acme", "a\nb", nil, 0},
		{"an unknown scope", "acme", "alice", []auth.Scope{"root"}, 0},
		{"a negative ttl", "acme", "alice", nil, -time.Second},
	}
	for _, test := range tests {
		if _, _, err := issuer.New(test.tenant, test.subject, test.scopes, test.ttl, nil); err == nil {
			t.Errorf("%s: got no error", test.what)
		}
	}
	if _, err := auth.NewIssuer([]byte("short")); err == nil {
		t.Error("a short pepper: got no error")
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	key, r, err := issuer.New("acme", "alice", []auth.Scope{auth.ScopeRead}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	ring.Put(r)
	p, err := ring.Verify(key, time.Now())
	if err != nil || !p.May(auth.ScopeRead) || p.May(auth.ScopeRun) {
		t.Errorf("got %+v, %v, want read alone", p, err)
	}
	for _, s := range auth.Scopes() {
		if !auth.Dev().May(s) {
			t.Errorf("a principal without scopes may not %s", s)
		}
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		headers []string
		want    string
	}{
		{[]string{"Bearer ak_a_b"}, "ak_a_b"},
		{[]string{"bearer ak_a_b"}, "ak_a_b"},
		{[]string{"Bearer  ak_a_b "}, "ak_a_b"},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"Bearer"}, ""},
		{[]string{"Bearer  "}, ""},
		{[]string{"Basic YTpi"}, ""},
		{[]string{"ak_a_b"}, ""},
		{[]string{"Bearer ak_a_b", "Bearer ak_c_d"}, ""},
	}
	for _, test := range tests {
		got, err := auth.Bearer(http.Header{"Authorization": slices.Clone(test.headers)})
		if got != test.want || (test.want == "") != (apierr.CodeOf(err) == apierr.AuthFailed) {
			t.Errorf("%q: got %q, %v, want %q", test.headers, got, err, test.want)
		}
	}
	both := http.Header{"Authorization": {"Bearer ak_a_b"}, "X-Api-Key": {"ak_c_d"}}
	if got, err := auth.Bearer(both); got != "ak_a_b" || err != nil {
		t.Errorf("got %q, %v; want the key of the Authorization header", got, err)
	}
	delete(both, "Authorization")
	if got, err := auth.Bearer(both); got != "ak_c_d" || err != nil {
		t.Errorf("got %q, %v; want that of X-Api-Key", got, err)
	}
}

func FuzzVerify(f *testing.F) {
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		f.Fatal(err)
	}
	key, record, err := issuer.New("acme", "alice", nil, 0, nil)
	if err != nil {
		f.Fatal(err)
	}
	ring := auth.NewKeyring(issuer)
	ring.Put(record)
	ring.Loaded()
	f.Add(key)
	f.Add("ak__")
	f.Add("___")
	f.Fuzz(func(t *testing.T, tried string) {
		if _, err := ring.Verify(tried, time.Now()); (err == nil) != (tried == key) {
			t.Fatalf("%q: got %v", tried, err)
		}
	})
}

func pair(t *testing.T) (*auth.Issuer, *auth.Keyring) {
	t.Helper()
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		t.Fatal(err)
	}
	ring := auth.NewKeyring(issuer)
	ring.Loaded()
	return issuer, ring
}

func issue(t *testing.T, i *auth.Issuer, subject string, ttl time.Duration) (string, auth.Record) {
	t.Helper()
	key, r, err := i.New("acme", subject, nil, ttl, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key, r
}

func TestAKeyExpiresByTheClockOfItsIssuer(t *testing.T) {
	t.Parallel()
	issuer, ring := pair(t)
	for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		broker := time.Now().Add(ahead)
		key, r, err := issuer.WithClock(func() time.Time { return broker }).New("acme", "alice", nil, 5*time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		ring.Put(r)
		if _, err := ring.Verify(key, broker.Add(4*time.Minute)); err != nil {
			t.Errorf("in time: got %v", err)
		}
		if _, err := ring.Verify(key, broker.Add(6*time.Minute)); err == nil {
			t.Error("afterwards: got no error")
		}
	}
}
