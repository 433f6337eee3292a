package hub_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// elsewhere is a bus whose broker has another time than this process.
type elsewhere struct {
	*bus.Bus
	ahead time.Duration
}

func (e elsewhere) Now() time.Time { return e.Bus.Now().Add(e.ahead) }

// TestAWrongClockChangesNothingAtTheHub has a hub, whose own clock is ten minutes behind the broker's or ahead of it, take up
// what the one before has written: heartbeats, set-up tokens, and a key that was replaced.
func TestAWrongClockChangesNothingAtTheHub(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"behind": 10 * time.Minute, "ahead": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, m, database := elsewhere{bustest.New(t), ahead}, newMachine(t), "sqlite:"+t.TempDir()+"/hub.db"
			first := open(t, link, database, nearby())
			first.register(m)
			var token struct {
				Token     string    `json:"token"`
				ExpiresAt time.Time `json:"expiresAt"`
			}
			first.ask(http.MethodPost, "/api/agents/tokens", "", nil, &token)
			m.set(func() { m.key = "new-key" })
			key := map[string]any{"apiKey": "new-key"}
			if status, text := first.ask(http.MethodPost, "/api/agents/vm-1/key", "", key, nil); status != http.StatusOK {
				t.Fatalf("got %d %s", status, text)
			}
			first.stop()

			h := open(t, link, database, nearby())
			var a hubapi.Agent
			h.ask(http.MethodGet, "/api/agents/vm-1", "", nil, &a)
			for what, off := range map[string]time.Duration{
				"the heartbeat": link.Now().Sub(a.LastHeartbeat), "the token's end": time.Until(token.ExpiresAt) - ahead - 30*time.Minute,
			} {
				if off.Abs() > time.Minute {
					t.Errorf("%s is %v off the broker's time", what, off)
				}
			}
			beat := remoteagent.Heartbeat{AgentID: "vm-1", Status: remoteagent.Idle}
			if status, text := h.ask(http.MethodPost, remoteagent.PathHeartbeat("vm-1"), machineKey, beat, nil); status != http.StatusNoContent {
				t.Errorf("the key before: got %d %s, want it to be good while it overlaps", status, text)
			}
			in := remoteagent.Registration{Token: token.Token, ID: "vm-1", URL: m.URL, Name: "VM 1", Key: "new-key"}
			if status, text := h.ask(http.MethodPost, remoteagent.PathRegister, "", in, nil); status != http.StatusCreated {
				t.Errorf("the token: got %d %s", status, text)
			}
			h.online(true)
			m.set(func() { m.ill = true })
			h.online(false)
		})
	}
}
