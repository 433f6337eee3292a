package cli

import (
	"encoding/json"
	"strings"
	"testing"
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
		{"no name becomes a flag", Claude(Options{}), `{"allowedTools":["--mcp-config","Read"]}`, base + " --allowedTools Read"},
		{"the operator's setting has priority", Claude(Options{Args: []string{"--permission-mode=plan"}}),
			`{"permissionMode":"bypassPermissions"}`, base + " --permission-mode=plan"},
		{"Codex reads", Codex(Options{}), `{"permissionMode":"default"}`, "exec --json --skip-git-repo-check -"},
		{"Codex edits", Codex(Options{}), `{"permissionMode":"acceptEdits"}`, "exec --json --skip-git-repo-check -s workspace-write -"},
		{"Codex may do all", Codex(Options{}), `{"permissionMode":"bypassPermissions"}`,
			"exec --json --skip-git-repo-check -s danger-full-access -"},
		{"Codex within the operator's bounds", Codex(Options{Args: []string{"-s", "read-only"}}),
			`{"permissionMode":"bypassPermissions"}`, "exec --json --skip-git-repo-check -s read-only -"},
		{"invalid options", Claude(Options{}), `[]`, base},
	}
	for _, test := range tests {
		args, _ := test.backend.program.tell(test.backend.options, ask{Permits: permitsOf(json.RawMessage(test.options))})
		if got := strings.Join(args, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
