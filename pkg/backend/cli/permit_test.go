package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
)

func TestTaskSetsProgramPermissions(t *testing.T) {
	t.Parallel()
	const base = "-p --output-format stream-json --verbose --include-partial-messages"
	tests := []struct {
		name    string
		backend *Backend
		options string
		want    string
	}{
		{"Claude Code, without a word about it", Claude(Options{}), `{"script":"x"}`, base},
		{"Claude Code", Claude(Options{}), `{"permissionMode":"acceptEdits","allowedTools":["Read","Bash(git *)"]}`,
			base + " --permission-mode acceptEdits --allowedTools Read,Bash(git *)"},
		{"Claude Code without tools", Claude(Options{Args: []string{"--allowedTools", "Bash"}}), `{"allowedTools":[]}`,
			base + " --allowedTools Bash --tools  --strict-mcp-config"},
		{"no name becomes a flag", Claude(Options{}), `{"allowedTools":["--mcp-config","Read"]}`, base + " --allowedTools Read"},
		{"the operator's setting has priority", Claude(Options{Args: []string{"--permission-mode=plan"}}),
			`{"permissionMode":"bypassPermissions"}`, base + " --permission-mode=plan"},
		{"Claude Code asks", Claude(Options{Permissions: permission.Ask}), ``, base + " --input-format stream-json --permission-prompt-tool stdio"},
		{"the mode of the agent", Claude(Options{Permissions: permission.Edits}), ``, base + " --permission-mode acceptEdits"},
		{"the mode of a task, which does not ask", Claude(Options{Permissions: permission.Ask}), `{"permissionMode":"acceptEdits"}`,
			base + " --permission-mode acceptEdits"},
		{"a task that asks", Claude(Options{}), `{"permissionMode":"acceptEdits","approvals":"ask"}`,
			base + " --permission-mode acceptEdits --input-format stream-json --permission-prompt-tool stdio"},
		{"the operator's own tool for permissions", Claude(Options{Permissions: permission.Ask, Args: []string{"--permission-prompt-tool", "mcp__a__b"}}),
			``, base + " --permission-prompt-tool mcp__a__b"},
		{"Codex reads", Codex(Options{}), `{"permissionMode":"default"}`, "exec --json --skip-git-repo-check -"},
		{"Codex edits", Codex(Options{}), `{"permissionMode":"acceptEdits"}`, "exec --json --skip-git-repo-check -s workspace-write -"},
		{"Codex may do all", Codex(Options{}), `{"permissionMode":"bypassPermissions"}`,
			"exec --json --skip-git-repo-check -s danger-full-access -"},
		{"Codex within the operator's bounds", Codex(Options{Args: []string{"-s", "read-only"}}),
			`{"permissionMode":"bypassPermissions"}`, "exec --json --skip-git-repo-check -s read-only -"},
		{"invalid options", Claude(Options{}), `[]`, base},
	}
	for _, test := range tests {
		args, _ := test.backend.program.tell(test.backend.options, ask{Permits: permitsOf(test.backend.options, json.RawMessage(test.options))})
		if got := strings.Join(args, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// An empty list allows no tools. A program that has no option for it is refused.
func TestAnEmptyListOfAllowedToolsIsNoTools(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		backend *Backend
		options string
		refused bool
	}{
		{"Claude Code", Claude(Options{}), `{"allowedTools":[]}`, false},
		{"Claude Code with the operator's MCP servers", Claude(Options{Args: []string{"--mcp-config=a.json"}}), `{"allowedTools":[]}`, true},
		{"Codex", Codex(Options{}), `{"allowedTools":[]}`, true},
		{"OpenCode", OpenCode(Options{}), `{"allowedTools":[]}`, true},
		{"any program", New(Options{Command: "cat"}), `{"allowedTools":[]}`, true},
		{"no list", Codex(Options{}), `{"permissionMode":"default"}`, false},
		{"a list that is null", Codex(Options{}), `{"allowedTools":null}`, false},
		{"a name", Codex(Options{}), `{"allowedTools":["Read"]}`, false},
	}
	for _, test := range tests {
		err := permitsOf(test.backend.options, json.RawMessage(test.options)).check(test.backend)
		if (apierr.CodeOf(err) == apierr.InvalidMessageFormat) != test.refused || (err != nil) != test.refused {
			t.Errorf("%s: got %v, want a refusal %t", test.name, err, test.refused)
		}
	}
}
