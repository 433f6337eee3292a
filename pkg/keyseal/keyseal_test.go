package keyseal_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/keyseal"
)

func open(t *testing.T, secret string) *keyseal.Vault {
	t.Helper()
	v, err := keyseal.New([]byte(secret), keyseal.HubAgentKeys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func forAgentServer(t *testing.T, secret string) *keyseal.Vault {
	t.Helper()
	v, err := keyseal.New([]byte(secret), keyseal.AgentServerKey)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestReplayedKeyIsVisibleToOwnerOnly(t *testing.T) {
	t.Parallel()
	v := open(t, "0123456789abcdef")
	sealed := v.Seal("home-pc-01", "agent-secret-key-123")
	if strings.Contains(sealed, "agent-secret") || sealed == v.Seal("home-pc-01", "agent-secret-key-123") {
		t.Errorf("%q shows the key, or is the same twice", sealed)
	}
	if got, err := v.Open("home-pc-01", sealed); err != nil || got != "agent-secret-key-123" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, try := range map[string]func() (string, error){
		"another agent":      func() (string, error) { return v.Open("vm-1", sealed) },
		"another secret":     func() (string, error) { return open(t, "fedcba9876543210").Open("home-pc-01", sealed) },
		"another purpose":    func() (string, error) { return forAgentServer(t, "0123456789abcdef").Open("home-pc-01", sealed) },
		"a changed text":     func() (string, error) { return v.Open("home-pc-01", "A"+sealed[1:]+"A") },
		"no sealed text":     func() (string, error) { return v.Open("home-pc-01", "") },
		"what is not a text": func() (string, error) { return v.Open("home-pc-01", "*") },
	} {
		if got, err := try(); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}

func TestAShortSecretIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := keyseal.New([]byte("short"), keyseal.HubAgentKeys); err == nil {
		t.Error("got no error")
	}
	if _, err := keyseal.New(keyseal.NewSecret(), keyseal.HubAgentKeys); err != nil {
		t.Errorf("a secret of its own: %v", err)
	}
}
