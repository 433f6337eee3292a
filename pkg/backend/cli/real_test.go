package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/acp"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/event"
)

// realVariable names the folder of npm's packages with the real programs, as `make real-cli` installs them. Without it
// there is nothing that could be run.
const realVariable = "AGENTBUS_REAL_CLI"

func TestRealPrograms(t *testing.T) {
	bin := os.Getenv(realVariable)
	if bin == "" {
		t.Logf("%s is not set: the recordings of testdata stand for the real programs", realVariable)
		return
	}
	model := startModel(t)
	home := t.TempDir()
	tests := []struct {
		name string
		open func(Options) *Backend
		o    Options
		file string // of settings, in the home folder
		text string // of it
		gone string // the id of a session that does not exist
	}{
		{"claude", Claude, Options{Args: []string{"--allowedTools", "Bash"}, Env: map[string]string{
			"ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "sk-ant-mock", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		}}, ".claude/none", "", "00000000-0000-4000-8000-000000000000"},
		{"codex", Codex, Options{Args: []string{"-s", "danger-full-access"}, Env: map[string]string{"MOCK_KEY": "x"}},
			".codex/config.toml", codexSettings(model, "mock-model"), "01a1fb4a-89ee-73b2-bd77-1a450343e107"},
		{"opencode", OpenCode, Options{}, ".config/opencode/opencode.json", openCodeSettings(model, "allow"),
			"ses_e04b2d843ffeOVUp9Z5I2UB13G"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, filepath.Join(home, tt.file), tt.text)
			o := tt.o
			o.Command, o.Workspace = filepath.Join(bin, ".bin", tt.name), t.TempDir()
			if o.Env == nil {
				o.Env = map[string]string{}
			}
			o.Env["HOME"] = home
			turn := say("say hi")
			turn.Model = map[string]string{"claude": "claude-sonnet-4-5", "codex": "mock-model", "opencode": "mock/m"}[tt.name]
			turn.Limits.Turns = 5
			works(t, tt.open(o), turn, tt.gone)
		})
	}
}

// TestRealClaudeCodeAsks lets the real program ask for a permission, which the user gives, denies, or has given for another call.
func TestRealClaudeCodeAsks(t *testing.T) {
	bin := os.Getenv(realVariable)
	if bin == "" {
		t.Logf("%s is not set: the recordings of testdata stand for the real program", realVariable)
		return
	}
	b := Claude(Options{
		Command: filepath.Join(bin, ".bin", "claude"), Workspace: t.TempDir(), Permissions: permission.Ask,
		Args: []string{"--settings", `{"permissions":{"ask":["Bash"]}}`}, Env: map[string]string{
			"HOME": t.TempDir(), "ANTHROPIC_BASE_URL": startModel(t), "ANTHROPIC_API_KEY": "sk-ant-mock", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		},
	})
	asksAndDecides(t, b, "claude-sonnet-4-5")
}

// TestRealProgramsAskOverACP lets the programs ask that have no approvals in their own commands.
func TestRealProgramsAskOverACP(t *testing.T) {
	bin := os.Getenv(realVariable)
	if bin == "" {
		t.Logf("%s is not set: the agents of pkg/backend/acp stand for the real programs", realVariable)
		return
	}
	model := startModel(t)
	tests := []struct {
		name, command string
		args          []string
		file, text    string // settings, in the home folder
		env           map[string]string
	}{
		{"opencode", "opencode", []string{"acp"}, ".config/opencode/opencode.json", openCodeSettings(model, "ask"), map[string]string{}},
		{"codex", "codex-acp", nil, ".codex/config.toml", codexSettings(model, "mock-asks"),
			map[string]string{"MOCK_KEY": "x", "CODEX_PATH": filepath.Join(bin, ".bin", "codex"), "INITIAL_AGENT_MODE": "workspace-write"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			write(t, filepath.Join(home, tt.file), tt.text)
			tt.env["HOME"] = home
			asksAndDecides(t, acp.New(acp.Options{
				Command: filepath.Join(bin, ".bin", tt.command), Args: tt.args, Env: tt.env, Workspace: t.TempDir(),
			}), "")
		})
	}
}

func codexSettings(url, model string) string {
	return fmt.Sprintf("model = %q\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\nbase_url = %q\n"+
		"env_key = \"MOCK_KEY\"\nwire_api = \"responses\"\n", model, url+"/v1")
}

func openCodeSettings(model, bash string) string {
	return fmt.Sprintf(`{"model":"mock/m","provider":{"mock":{"npm":"@ai-sdk/openai-compatible","name":"mock","options":{"baseURL":%q,"apiKey":"x"},`+
		`"models":{"m":{"name":"m"}}}},"permission":{"bash":%q}}`, model+"/v1", bash)
}

// asksAndDecides lets a program ask for the permission to run the model's command, and passes decisions on.
func asksAndDecides(t *testing.T, b backend.Backend, model string) {
	t.Helper()
	turn := say("say hi")
	turn.Model = model
	first := backendtest.Send(t.Context(), b, backend.State{}, turn)
	var call backend.Call
	for _, c := range first.Chunks {
		switch c := c.(type) {
		case backend.CallStart:
			call = backend.Call{ID: "c", Name: c.Name}
			if c.Gate != backend.GateAgentApproval {
				t.Errorf("got the gate %s", c.Gate)
			}
		case backend.CallDelta:
			call.Args = append(call.Args, c.Args...)
		case backend.CallSignature:
			call.Signature = c.Signature
		}
	}
	if first.Err != nil || first.Outcome.Finish != event.FinishToolCalls || !strings.Contains(string(call.Args), "echo hi-from-tool") {
		t.Fatalf("got %v, %+v, the call %s %s, want a call that waits for the user; %+v", first.Err, first.Outcome, call.Name, call.Args, first.Chunks)
	}
	for _, tt := range []struct {
		name    string
		args    string
		status  event.ToolStatus
		content string
		ran     bool
		asks    bool
	}{
		{"allowed", string(call.Args), event.ToolSuccess, "the user allowed this call", true, false},
		{"denied", string(call.Args), event.ToolDenied, "the user denied this call: not now", false, false},
		{"allowed with other arguments", `{"command":"echo other"}`, event.ToolSuccess, "the user allowed this call", false, true},
	} {
		made := call
		made.Args = []byte(tt.args)
		next := turn
		next.Known = 3
		next.Messages = append(slices.Clone(turn.Messages), backend.Message{Role: backend.Assistant, Parts: []backend.Part{made}},
			backend.Message{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: "c", Name: call.Name, Status: tt.status, Content: tt.content}}})
		a := backendtest.Send(t.Context(), b, first.State, next)
		ran := false
		for _, c := range a.Chunks {
			ended, ok := c.(backend.ToolEnded)
			ran = ran || ok && (ended.Status == "" || ended.Status == event.ToolSuccess)
		}
		if a.Err != nil || ran != tt.ran || (a.Outcome.Finish == event.FinishToolCalls) != tt.asks {
			t.Errorf("%s: got %v, %+v, ran %t, want ran %t, asks %t; %+v", tt.name, a.Err, a.Outcome, ran, tt.ran, tt.asks, a.Chunks)
		}
	}
}

// works lets a program run a tool and answer, continue its session, and start another one where there is none.
func works(t *testing.T, b *Backend, turn backend.Turn, gone string) {
	t.Helper()
	first := backendtest.Send(t.Context(), b, backend.State{}, turn)
	if first.Err != nil || !strings.Contains(first.Text, "PONG from mock") || first.State.ID == "" {
		t.Fatalf("the first turn: %v, %q, %+v", first.Err, first.Text, first.Chunks)
	}
	ran := false
	for _, c := range first.Chunks {
		ended, ok := c.(backend.ToolEnded)
		ran = ran || ok && strings.Contains(ended.Content, "hi-from-tool")
	}
	if !ran || first.Outcome.Usage.InputTokens == 0 {
		t.Errorf("no tool ran, or nothing was counted: %+v, %+v", first.Chunks, first.Outcome)
	}
	second := backendtest.Send(t.Context(), b, first.State, turn)
	if second.Err != nil || second.State.ID != first.State.ID || !strings.Contains(second.Text, "PONG") {
		t.Errorf("resumed: %v, %q, %+v", second.Err, second.Text, second.State)
	}
	if used := second.Outcome.Usage.InputTokens; used == 0 || used >= first.Outcome.Usage.InputTokens+second.State.Used.InputTokens {
		t.Errorf("resumed it used %d tokens after %d", used, first.Outcome.Usage.InputTokens)
	}
	anew := backendtest.Send(t.Context(), b, backend.State{ID: gone}, turn)
	if anew.Err != nil || anew.State.ID == gone || anew.State.ID == "" {
		t.Errorf("a session that is gone: %v, %+v", anew.Err, anew.State)
	}
}

// startModel starts the model that answers by script, and gives its address.
func startModel(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // the model takes the port, which no other process has asked for
	cmd := exec.Command("node", "testdata/model.mjs")
	cmd.Env = append(os.Environ(), "MOCK_PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := "http://127.0.0.1:" + port
	for deadline := time.Now().Add(20 * time.Second); ; {
		res, err := http.Get(url)
		if err == nil {
			_ = res.Body.Close()
			return url
		}
		if time.Now().After(deadline) {
			t.Fatalf("the model does not answer: %v", err)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
