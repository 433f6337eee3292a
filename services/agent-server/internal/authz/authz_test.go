package authz_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/authz"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

const (
	secret = "the secret of an agent-server in a test"
	first  = "the-first-key-0123456789"
	second = "the-second-key-0123456789"
	third  = "the-third-key-0123456789"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// keyring returns the keyring of a process that starts with the operator's keys.
func keyring(t *testing.T, s authz.Store, operators ...string) *authz.Keyring {
	t.Helper()
	k, err := authz.Open(t.Context(), s, []byte(secret), operators)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// accepts checks which keys are valid.
func accepts(t *testing.T, k *authz.Keyring, want map[string]bool) {
	t.Helper()
	for key, valid := range want {
		if got := k.Good(key); got != valid {
			t.Errorf("key %q: got %v, want %v", key, got, valid)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, key string
		ok        bool
	}{
		{"the shortest key", strings.Repeat("a", authz.MinKey), true},
		{"the longest key", strings.Repeat("a", authz.MaxKey), true},
		{"a key that is too short", strings.Repeat("a", authz.MinKey-1), false},
		{"a key that is too long", strings.Repeat("a", authz.MaxKey+1), false},
		{"all printable characters but space and comma", "!\"#$%&'()*+-./:;<=>?@[]^_`{|}~", true},
		{"a space", "a key with spaces in it", false},
		{"a comma, which separates keys in AGENT_KEYS", "a-key,another-key", false},
		{"a character that is not ASCII", "a-key-with-an-é-in-it", false},
		{"a line break", "a-key-with-a\nline-break", false},
	}
	for _, test := range tests {
		if err := authz.Check(test.key); (err == nil) != test.ok {
			t.Errorf("%s: got %v, want valid: %v", test.name, err, test.ok)
		}
	}
}

func TestARotationExpiresTheEarlierKeys(t *testing.T) {
	t.Parallel()
	s := open(t)
	k := keyring(t, s, first)
	accepts(t, k, map[string]bool{first: true, second: false, "": false, first + "0": false, first[1:]: false})
	begun := time.Now()
	rotated, err := k.Rotate(t.Context(), remoteagent.Rotation{Key: second, OverlapSeconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	accepts(t, k, map[string]bool{first: true, second: true})
	if got := k.Newest(); got != second {
		t.Errorf("got %q as the newest key, want %q", got, second)
	}
	if until := rotated.OldKeysValidUntil.Sub(begun); until < 900*time.Millisecond || until > 5*time.Second {
		t.Errorf("got an overlap of %v, want a second", until)
	}
	for deadline := time.Now().Add(20 * time.Second); k.Good(first); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the earlier key does not expire")
		}
	}
	accepts(t, k, map[string]bool{first: false, second: true})
	// A restart keeps the rotation, although the operator's key is the first one.
	again := keyring(t, s, first)
	accepts(t, again, map[string]bool{first: false, second: true})
	if got := again.Newest(); got != second {
		t.Errorf("after a restart: got %q as the newest key, want %q", got, second)
	}
}

func TestAnOverlapIsNeverExtended(t *testing.T) {
	t.Parallel()
	k := keyring(t, open(t), first)
	early, err := k.Rotate(t.Context(), remoteagent.Rotation{Key: second, OverlapSeconds: 60})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Rotate(t.Context(), remoteagent.Rotation{Key: third, OverlapSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); k.Good(first) || k.Good(second); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the earlier keys are valid until %v, want the shorter overlap", early.OldKeysValidUntil)
		}
	}
	accepts(t, k, map[string]bool{third: true})
}

func TestWrongRotationsAreRefused(t *testing.T) {
	t.Parallel()
	k := keyring(t, open(t), first)
	for name, r := range map[string]remoteagent.Rotation{
		"a short key":         {Key: "short"},
		"a negative overlap":  {Key: second, OverlapSeconds: -1},
		"an overlap of years": {Key: second, OverlapSeconds: 365 * 24 * 3600},
	} {
		if _, err := k.Rotate(t.Context(), r); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	accepts(t, k, map[string]bool{first: true, second: false})
	for i := range 15 {
		if _, err := k.Rotate(t.Context(), remoteagent.Rotation{Key: third + strings.Repeat("x", i), OverlapSeconds: 600}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Rotate(t.Context(), remoteagent.Rotation{Key: second}); err == nil {
		t.Error("a rotation with 16 valid keys: got no error")
	}
}

func TestTheStoreHasNoKeyInPlainText(t *testing.T) {
	t.Parallel()
	s := open(t)
	k := keyring(t, s, first)
	for _, key := range []string{second, third} {
		if _, err := k.Rotate(t.Context(), remoteagent.Rotation{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := s.Keys(t.Context())
	if err != nil || len(stored) != 3 {
		t.Fatalf("got %d keys and %v, want 3", len(stored), err)
	}
	sealed := 0
	for _, one := range stored {
		for _, plain := range []string{first, second, third} {
			if strings.Contains(one.Hash+one.Sealed, plain) {
				t.Errorf("the store has the key %q: %+v", plain, one)
			}
		}
		if one.Sealed != "" {
			sealed++
		}
	}
	if sealed != 1 {
		t.Errorf("got %d keys that can be read again, want the newest only", sealed)
	}
	if _, err := authz.Open(t.Context(), s, []byte("another secret of an agent-server, as long"), []string{first}); err == nil {
		t.Error("another secret opens the store")
	}
}

func TestAKeyringNeedsAValidKey(t *testing.T) {
	t.Parallel()
	if _, err := authz.Open(t.Context(), open(t), []byte(secret), nil); err == nil || !strings.Contains(err.Error(), "AGENT_KEYS") {
		t.Errorf("got %v, want an error that names AGENT_KEYS", err)
	}
	k := keyring(t, open(t), first)
	if err := k.Reload(t.Context(), []string{"short"}); err == nil {
		t.Error("a short key of the operator: got no error")
	}
	accepts(t, k, map[string]bool{first: true})
	if err := k.Reload(t.Context(), []string{second}); err != nil {
		t.Fatal(err)
	}
	accepts(t, k, map[string]bool{first: false, second: true})
}
