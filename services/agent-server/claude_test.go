package agentserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

const fakeClaude = "AGENT_SERVER_FAKE_CLAUDE"

// TestMain makes the test program one that speaks as Claude Code does, where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv(fakeClaude) == "" {
		os.Exit(m.Run())
	}
	dir, err := os.Getwd()
	if err != nil {
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, `{"type":"system","subtype":"init","session_id":"claude-1","model":"m1"}
{"type":"assistant","message":{"id":"msg_1","model":"m1","content":[{"type":"text","text":"I edit."},{"type":"tool_use","id":"toolu_1","name":"Edit","input":{"file_path":%q}},{"type":"tool_use","id":"toolu_2","name":"Bash","input":{"command":"npm test"}}],"usage":{"input_tokens":3,"output_tokens":5}},"session_id":"claude-1"}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"},{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":"1 failed"}]},"session_id":"claude-1"}
{"type":"assistant","message":{"id":"msg_2","model":"m1","content":[{"type":"text","text":%q}],"usage":{"input_tokens":4,"output_tokens":6}},"session_id":"claude-1"}
{"type":"result","subtype":"success","is_error":false,"result":"done","num_turns":2,"total_cost_usd":0.5,"stop_reason":"end_turn","session_id":"claude-1"}
`, filepath.Join(dir, "src/middleware.ts"), filepath.Base(dir)+": "+strings.Join(os.Args[1:], " "))
}

// A program that runs its own tools shows them as the TARS hub protocol does, works where the task says, and resumes its session.
func TestAProgramRunsTasks(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, setup{config: config.Config{
		AgentServer: config.AgentServer{Agent: "coder"},
		Agents: map[string]config.Agent{"coder": {
			Backend: config.BackendClaude, CLI: config.CLI{Command: exe, Env: map[string]string{fakeClaude: "1"}},
		}},
	}})
	if err := os.Mkdir(filepath.Join(s.root(), "app"), 0o700); err != nil {
		t.Fatal(err)
	}
	task := s.create(remoteagent.Assignment{
		Prompt: "add auth", Cwd: "app", PermissionMode: remoteagent.PermitEdits, AllowedTools: []string{"Read", "Edit"}, MaxTurns: 28, MaxBudgetUSD: 5,
	})
	events := s.follow(task.TaskID, 0)
	starts, ends := find[remoteagent.ToolStart](events), find[remoteagent.ToolEnd](events)
	if len(starts) != 2 || starts[0].Tool != "Edit" || starts[0].File != "src/middleware.ts" ||
		starts[0].Activity != "Editing src/middleware.ts" || starts[1].Activity != "Running: npm test" {
		t.Errorf("got %+v", starts)
	}
	if len(ends) != 2 || !ends[0].Success || ends[1].Success {
		t.Errorf("got %+v", ends)
	}
	done := s.status(task.TaskID)
	if done.Status != remoteagent.Completed || done.CostUSD != 0.5 || done.TurnsCompleted != 2 ||
		!slices.Equal(done.FilesModified, []string{"src/middleware.ts"}) || !strings.HasPrefix(done.Result, "app: ") {
		t.Errorf("got %+v", done)
	}
	for _, want := range []string{"--max-turns 28", "--max-budget-usd 5.0", "--permission-mode acceptEdits", "--allowedTools Read,Edit"} {
		if !strings.Contains(done.Result, want) {
			t.Errorf("the program got %s, want %s", done.Result, want)
		}
	}
	s.until("the place is free", func() bool { info, err := s.Info(t.Context()); return err == nil && info.CurrentTask == nil })
	again := s.finish(s.create(remoteagent.Assignment{Prompt: "continue", SessionID: task.SessionID}).TaskID)
	if !strings.Contains(again.Result, "--resume claude-1") || !strings.HasPrefix(again.Result, "app: ") {
		t.Errorf("got %+v", again)
	}
}

// Who cannot work says why.
func TestAnAgentWithoutItsProgramIsUnhealthy(t *testing.T) {
	t.Parallel()
	s := open(t, setup{config: config.Config{
		AgentServer: config.AgentServer{Agent: "coder"},
		Agents: map[string]config.Agent{"coder": {
			Backend: config.BackendClaude, CLI: config.CLI{Command: filepath.Join(t.TempDir(), "claude")},
		}},
	}})
	health, err := s.Health(t.Context())
	if err != nil || health.Healthy || health.APIKeyValid || !strings.Contains(health.Error, "install") {
		t.Errorf("got %+v, %v", health, err)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.Status != remoteagent.Unhealthy || info.Error != health.Error {
		t.Errorf("got %+v, %v", info, err)
	}
	if done := s.finish(s.say("hello").TaskID); done.Status != remoteagent.Failed || done.Error == "" {
		t.Errorf("got %+v", done)
	}
}
