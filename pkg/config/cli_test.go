package config_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

func TestAgentsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	programs := config.Known{Backends: []string{"scripted", "claude-code", "codex", "opencode", "cli", "acp"}}
	tests := []struct {
		name, agent, says string
	}{
		{"a program that is known", "{backend: claude-code, workspace: /srv/p, cli: {args: [--allowedTools, Bash], quiet: {fresh: 1m}}}", ""},
		{"any program", `{backend: cli, workspace: "/srv/{thread}", cli: {command: mine, sessionArgs: [--s, "{session}"], output: ndjson, fields: {text: [a.b]}}}`, ""},
		{"no folder", "{backend: codex}", "agents.a: has no folder to work in; add one, such as workspace: /srv/project"},
		{"tools, which the program has itself", "{backend: codex, workspace: /p, askUser: true}", "runs its own tools"},
		{"a program's settings for a model", "{backend: scripted, cli: {command: x}}", "agents.a.cli: is for the backends"},
		{"the format of a program that is known", "{backend: codex, workspace: /p, cli: {output: text}}", "agents.a.cli.output: is known of codex"},
		{"no command", "{backend: cli, workspace: /p}", "has no command"},
		{"a session without an argument for it", "{backend: cli, workspace: /p, cli: {command: x, sessionMode: always}}", "add sessionArgs"},
		{"an ACP agent without a program", "{backend: acp, workspace: /p}", "add the program that speaks the Agent Client Protocol"},
		{"an unknown permission", "{backend: acp, workspace: /p, cli: {command: x, permissions: all}}", "agents.a.cli.permissions: unknown value"},
		{"permissions of another backend", "{backend: cli, workspace: /p, cli: {command: x, permissions: ask}}", "agents.a.cli.permissions: is for the backends acp and claude-code"},
		{"an unknown session mode", "{backend: cli, workspace: /p, cli: {command: x, sessionMode: often}}", "agents.a.cli.sessionMode: unknown value"},
		{"fields of a text", "{backend: cli, workspace: /p, cli: {command: x, fields: {text: [a]}}}", "add output: ndjson"},
		{"a value in place of a name", "{backend: codex, workspace: /p, cli: {passEnv: [KEY=sk-1]}}", "is the name of no environment variable"},
		{"a time below zero", "{backend: codex, workspace: /p, cli: {quiet: {resume: -1s}}}", "agents.a.cli.quiet.resume: must not be negative"},
		{"a cost below zero", "{backend: codex, workspace: /p, cli: {unitCost: -1}}", "agents.a.cli.unitCost: must not be negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse([]byte("agents:\n  a: "+tt.agent+"\n"), programs)
			if tt.says == "" && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
