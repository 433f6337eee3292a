package agentlist_test

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/services/gateway/internal/agentlist"
)

func TestAgentListIsPerTenant(t *testing.T) {
	t.Parallel()
	var agents agentlist.Agents
	for _, r := range []bus.AgentRecord{
		{ID: "vm-2", Tenant: "acme"}, {ID: "vm-1", Tenant: "acme", Online: true}, {ID: "vm-3", Tenant: "other"},
		{ID: "vm-2", Tenant: "acme", Online: true}, {ID: "vm-4", Tenant: "acme"}, {ID: "vm-4", Tenant: "acme", Removed: true},
	} {
		agents.Put(r)
	}
	own := agents.List("acme")
	if len(own) != 2 || own[0].ID != "vm-1" || own[1].ID != "vm-2" || !own[1].Online {
		t.Errorf("got %+v, want vm-1 and vm-2 as they are now", own)
	}
	for id, want := range map[string]bool{"vm-1": true, "vm-3": false, "vm-4": false, "vm-5": false} {
		if _, ok := agents.Find("acme", id); ok != want {
			t.Errorf("%s: found %v, want %v", id, ok, want)
		}
	}
}
