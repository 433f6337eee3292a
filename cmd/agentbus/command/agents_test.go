package command

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// agentServer answers what the hub asks of an agent before it is registered, and takes other keys.
func agentServer(t *testing.T, key string) string {
	t.Helper()
	var mu sync.Mutex
	keys := map[string]bool{"Bearer " + key: true} // by the header that they come in
	answer := func(w http.ResponseWriter, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(text)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /agent/health", func(w http.ResponseWriter, _ *http.Request) { answer(w, remoteagent.Health{Healthy: true}) })
	mux.HandleFunc("GET /agent/info", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, remoteagent.Info{AgentID: "home-pc-01", Name: "Home PC", Capabilities: []string{"code"}, Status: remoteagent.Idle})
	})
	mux.HandleFunc("POST /agent/keys", func(w http.ResponseWriter, r *http.Request) {
		var in remoteagent.Rotation
		if err := json.UnmarshalRead(r.Body, &in); err != nil {
			t.Error(err)
		}
		keys["Bearer "+in.Key] = true
		answer(w, remoteagent.Rotated{})
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !keys[r.Header.Get("Authorization")] {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRemoteAgentsAreKeptByTheCommandLine(t *testing.T) {
	t.Parallel()
	s := own(t)
	url := agentServer(t, "agent-secret-key")
	if out, _ := execute(t, 0, s.at("agents", "add", url, "--agent-key=agent-secret-key", "--budget=2.5")...); out != "home-pc-01 (Home PC) is registered, and online\n" {
		t.Errorf("got %q", out)
	}
	if out, _ := execute(t, 0, s.at("agents", "remote")...); !strings.Contains(out, "home-pc-01") || !strings.Contains(out, "idle") {
		t.Errorf("got %q", out)
	}
	for _, args := range [][]string{{"agents", "rotate", "home-pc-01"}, {"agents", "rotate", "home-pc-01", "--new-key=a-key-of-ones-own"}} {
		if out, _ := execute(t, 0, s.at(args...)...); !strings.HasPrefix(out, "home-pc-01 has a new key; the old one is good until ") {
			t.Errorf("%v: got %q", args, out)
		}
	}
	for _, args := range [][]string{{"agents", "set", "home-pc-01", "--name=Home PC"}, {"agents", "set", "home-pc-01", "--allowed-tools=*"}} {
		if out, _ := execute(t, 0, s.at(append([]string{"--json"}, args...)...)...); strings.Contains(out, "defaultAllowedTools") {
			t.Errorf("%v: got %q, want all tools", args, out)
		}
	}
	args := s.at("--json", "agents", "set", "home-pc-01", "--permission-mode=acceptEdits", "--allowed-tools=Read,Edit", "--budget=2.5")
	out, _ := execute(t, 0, args...)
	for _, want := range []string{`"defaultPermissionMode":"acceptEdits"`, `"defaultAllowedTools":["Read","Edit"]`, `"budgetUsd":2.5`} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want %s in it", out, want)
		}
	}
	if out, _ := execute(t, 0, s.at("--json", "agents", "set", "home-pc-01", "--allowed-tools=none")...); !strings.Contains(out, `"defaultAllowedTools":[]`) {
		t.Errorf("got %q, want no tools", out)
	}
	if _, side := execute(t, exitFailed, s.at("agents", "set", "home-pc-01")...); !strings.Contains(side, "nothing is to be changed") {
		t.Errorf("got %q", side)
	}
	if out, side := execute(t, 0, s.at("agents", "token")...); !strings.HasPrefix(out, "hub_") || !strings.Contains(side, "HUB_TOKEN") {
		t.Errorf("got %q, %q", out, side)
	}
	for _, args := range [][]string{
		{"agents", "remote"}, {"agents", "rotate", "home-pc-01"}, {"agents", "token"}, {"agents", "remove", "home-pc-01"},
		{"agents", "add", url, "--agent-key=agent-secret-key"},
	} {
		out, _ := execute(t, 0, s.at(append([]string{"--json"}, args...)...)...)
		var value map[string]any
		if err := json.Unmarshal([]byte(out), &value); err != nil {
			t.Errorf("%v: got %q: %v", args, out, err)
		}
	}
	if out, _ := execute(t, 0, s.at("agents", "remove", "home-pc-01")...); out != "removed home-pc-01\n" {
		t.Errorf("got %q", out)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"an agent that is not there":     {[]string{"agents", "remove", "home-pc-01"}, "there is no remote agent"},
		"a key that the agent refuses":   {[]string{"agents", "add", url, "--agent-key=wrong"}, "does not take this apiKey"},
		"an address without a server":    {[]string{"agents", "add", "http://127.0.0.1:1", "--agent-key=k"}, "no agent answers at"},
		"an address on the open network": {[]string{"agents", "add", "http://169.254.169.254", "--agent-key=k"}, "must not be reached"},
		"a hub that is not there":        {[]string{"agents", "--hub=http://127.0.0.1:1", "remote"}, "nothing answers at"},
	}
	for name, tt := range tests {
		if _, side := execute(t, exitFailed, s.at(tt.args...)...); !strings.Contains(side, tt.want) {
			t.Errorf("%s: got %q, want %q", name, side, tt.want)
		}
	}
}
