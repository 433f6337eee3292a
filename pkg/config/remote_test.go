package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

func TestRemoteAgents(t *testing.T) {
	t.Parallel()
	known := config.Known{Backends: []string{"scripted", "remote"}}
	tests := []struct{ name, agent, says string }{
		{"one with all defaults", "{backend: remote, remote: {agent: vm-1}}", ""},
		{"one with every setting", `{backend: remote, model: m, models: ["*"], system: be brief, limits: {turns: 9, cost: 1, time: 1h}, ` +
			"remote: {agent: vm-1, permissionMode: acceptEdits, allowedTools: [Read], cwd: app, approvals: deny}}", ""},
		{"no id", "{backend: remote}", "add its id at the hub, such as remote: {agent: home-pc-01}"},
		{"no possible id", "{backend: remote, remote: {agent: a b}}", "agents.a.remote.agent: \"a b\" is not the id"},
		{"the id of an agent of the file", "{backend: remote, remote: {agent: a}}", "rename the agent here"},
		{"another backend", "{backend: scripted, remote: {agent: vm-1}}", "agents.a.remote: is for the backend remote"},
		{"an unknown permission mode", "{backend: remote, remote: {agent: vm-1, permissionMode: all}}", "agents.a.remote.permissionMode: unknown value"},
		{"an unknown value of approvals", "{backend: remote, remote: {agent: vm-1, approvals: never}}", "agents.a.remote.approvals: unknown value"},
		{"tools of the installation", "{backend: remote, remote: {agent: vm-1}, askUser: true}", "with the tools that its configuration there has"},
		{"options of a model", "{backend: remote, remote: {agent: vm-1}, effort: high}", "agents.a.effort: backend remote has no such setting"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse([]byte("agents:\n  a: "+tt.agent+"\n"), known)
			if tt.says == "" && (err != nil || c.Agents["a"].Remote.Agent != "vm-1") {
				t.Errorf("got %+v, %v", c.Agents["a"], err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

// An empty list of tools allows no tools, and differs from an absent one.
func TestAllowedToolsOfARemoteAgent(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string][]string{"": nil, ", allowedTools: []": {}, ", allowedTools: null": nil, ", allowedTools: [Read]": {"Read"}} {
		c, err := config.Parse([]byte("agents:\n  a: {backend: remote, remote: {agent: vm-1"+setting+"}}\n"), config.Known{Backends: []string{"remote"}})
		if got := c.Agents["a"].Remote.AllowedTools; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, %v, want %#v", setting, got, err, want)
		}
	}
}
