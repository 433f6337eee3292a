package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/event"
)

// bench is a folder in which the fake program runs.
type bench struct {
	t   *testing.T
	dir string
}

func newBench(t *testing.T) bench {
	t.Helper()
	return bench{t, t.TempDir()}
}

// options run the fake in place of a program.
func (b bench) options(o Options) Options {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		b.t.Fatal(err)
	}
	o.Command, o.Workspace = self, b.dir
	o.Env = map[string]string{fakeVariable: here}
	return o
}

func (b bench) left(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func say(text string) backend.Turn {
	return backend.Turn{Messages: []backend.Message{user(text)}}
}

func user(text string) backend.Message {
	return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	programs := map[string]struct {
		open  func(Options) *Backend
		tools string
		text  string
	}{
		"claude":   {Claude, "claude-tool-turn", "claude-resume"},
		"codex":    {Codex, "codex-tool-turn", "codex-text"},
		"opencode": {OpenCode, "opencode-tool-turn", "opencode-text"},
	}
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backendtest.Run(t, func(t *testing.T) backendtest.Subject {
				return backendtest.Subject{
					Backend: p.open(newBench(t).options(Options{})), Resumes: true,
					Text: say("replay " + p.text), Tools: say("replay " + p.tools),
					Retryable: say("die the model is overloaded"), Final: say("die no such model: m1"), Endless: say("endless"),
				}
			})
		})
	}
}

func TestProgramGetsSupportedArguments(t *testing.T) {
	t.Parallel()
	turn := say("do it")
	turn.Model, turn.System = "m1", "Be brief."
	turn.Limits = backend.Limits{Turns: 7, CostUSD: 2.5}
	resumed := backend.State{ID: "s1", Used: event.Usage{CostUSD: 0.5}}
	tests := []struct {
		name    string
		backend *Backend
		state   backend.State
		args    string
		stdin   string
	}{
		{"Claude Code, anew", Claude(Options{Args: []string{"--allowedTools", "Bash"}}), backend.State{},
			"-p --output-format stream-json --verbose --include-partial-messages --model m1 --append-system-prompt Be brief. " +
				"--max-turns 7 --max-budget-usd 2.500000 --allowedTools Bash", "do it"},
		{"Claude Code, resumed: its budget counts what the session has cost", Claude(Options{}), resumed,
			"-p --output-format stream-json --verbose --include-partial-messages --model m1 --append-system-prompt Be brief. " +
				"--resume s1 --max-turns 7 --max-budget-usd 3.000000", "do it"},
		{"Codex, anew", Codex(Options{Args: []string{"-s", "read-only"}}), backend.State{},
			"exec --json --skip-git-repo-check --model m1 -s read-only -", "Be brief.\n\ndo it"},
		{"Codex, resumed: its session has the system prompt", Codex(Options{}), resumed,
			"exec --json --skip-git-repo-check --model m1 resume s1 -", "do it"},
		{"OpenCode, anew", OpenCode(Options{}), backend.State{}, "run --format json --model m1", "Be brief.\n\ndo it"},
		{"OpenCode, resumed", OpenCode(Options{}), resumed, "run --format json --model m1 --session s1", "do it"},
		{"another one, anew", New(Options{Args: []string{"-m", "{model}"}, SessionArgs: []string{"-s", "{session}"}}), backend.State{},
			"-m m1", "Be brief.\n\ndo it"},
		{"another one, resumed", New(Options{Args: []string{"-m", "{model}"}, SessionArgs: []string{"-s={session}"}}), resumed,
			"-m m1 -s=s1", "do it"},
		{"another one that has no sessions", New(Options{SessionMode: SessionNone, SessionArgs: []string{"-s={session}"}}), resumed, "", "do it"},
		{"another one whose prompt is an argument", New(Options{Args: []string{"--ask={prompt}"}}), resumed, "--ask=do it", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args, stdin := tt.backend.program.tell(tt.backend.options, ask{
				Session: tt.state, Resumes: tt.state.ID != "", Model: turn.Model, System: turn.System,
				Prompt: prompt.Of(turn.Messages, maxPrompt), Limits: turn.Limits,
			})
			if got := strings.Join(args, " "); got != tt.args || stdin != tt.stdin {
				t.Errorf("got %q and %q, want %q and %q", got, stdin, tt.args, tt.stdin)
			}
		})
	}
}

func TestRunEndsWithProgramStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prompt string
		finish       event.FinishReason
		cost         float64
	}{
		{"with an answer", "replay claude-tool-turn", event.FinishStop, 0.000282},
		{"at the limit of turns", "replay claude-max-turns", event.FinishMaxTurns, 0.000171},
		{"at the limit of cost", "replay claude-max-budget", event.FinishBudget, 0.000171},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := backendtest.Send(t.Context(), Claude(newBench(t).options(Options{})), backend.State{}, say(tt.prompt))
			if a.Err != nil || a.Outcome.Finish != tt.finish || a.Outcome.Usage.CostUSD != tt.cost {
				t.Errorf("got %+v and error %v", a.Outcome, a.Err)
			}
			if a.State.ID == "" || a.State.Used.CostUSD != tt.cost {
				t.Errorf("the state of the session is %+v", a.State)
			}
		})
	}
}

func TestCumulativeCountsBecomeDifferences(t *testing.T) {
	t.Parallel()
	b := Claude(newBench(t).options(Options{}))
	first := backendtest.Send(t.Context(), b, backend.State{}, say("replay claude-tool-turn"))
	second := backendtest.Send(t.Context(), b, first.State, say("replay claude-resume"))
	if second.Err != nil {
		t.Fatal(second.Err)
	}
	if got := second.Outcome.Usage; got.InputTokens != 12 || got.OutputTokens != 5 || fmt.Sprintf("%.6f", got.CostUSD) != "0.000111" {
		t.Errorf("the second turn has used %+v", got)
	}
	if got := second.State.Used; fmt.Sprintf("%.6f", got.CostUSD) != "0.000393" {
		t.Errorf("the session has used %+v, want what the program reports of both turns", got)
	}
	third := backendtest.Send(t.Context(), b, backend.State{ID: "s9", Used: event.Usage{CostUSD: 5}}, say("replay claude-tool-turn"))
	if got := third.Outcome.Usage.CostUSD; got != 0.000282 {
		t.Errorf("a program that counts anew has used %v, want all that it says", got)
	}
}

func TestMissingSessionIsReplacedWithConversation(t *testing.T) {
	t.Parallel()
	bench := newBench(t)
	b := Claude(bench.options(Options{}))
	turn := backend.Turn{Known: 2, Messages: []backend.Message{
		user("my name is Ada"), {Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "Hello Ada."}}}, user("session"),
	}}
	a := backendtest.Send(t.Context(), b, backend.State{ID: "gone", Used: event.Usage{CostUSD: 3}}, turn)
	if a.Err != nil {
		t.Fatalf("%v", a.Err)
	}
	if told := bench.left("prompt"); !strings.Contains(told, "my name is Ada") || !strings.Contains(told, "Hello Ada.") {
		t.Errorf("it got the prompt %q", told)
	}
	if slices.Contains(strings.Split(bench.left("args"), "\n"), "--resume") {
		t.Error("it resumed again")
	}
	if a.Text != "hello" || a.State.ID == "gone" || a.Outcome.Usage.CostUSD != 0.25 {
		t.Errorf("got %q, state %+v, usage %+v", a.Text, a.State, a.Outcome.Usage)
	}
}

func TestResumedSessionGetsOnlyNewMessages(t *testing.T) {
	t.Parallel()
	bench := newBench(t)
	turn := backend.Turn{Known: 2, Messages: []backend.Message{
		user("one"), {Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "two"}}}, user("three"), user("replay claude-resume"),
	}}
	if a := backendtest.Send(t.Context(), Claude(bench.options(Options{})), backend.State{ID: "s1"}, turn); a.Err != nil {
		t.Fatal(a.Err)
	}
	if got, want := bench.left("prompt"), "three\n\nreplay claude-resume"; got != want {
		t.Errorf("it got the prompt %q, want %q", got, want)
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prompt string
		open         func(Options) *Backend
		says         string
		retryable    bool
	}{
		{"the model's, as the program says it", "replay claude-refused-key", Claude, "Claude Code failed: Invalid API key", false},
		{"the model's, in a turn that failed", "replay codex-failed", Codex, "Codex failed: unexpected status 401", false},
		{"the provider's", "replay opencode-failed", OpenCode, "OpenCode failed: the key is refused", false},
		{"the program's, by its last words", "die model is overloaded", OpenCode, "OpenCode failed: Error: model is overloaded", true},
		{"an answer that breaks off", "say {}", Claude, "Claude Code ended without an answer", true},
		{"silence", "silent", Claude, "did not get on for 300ms", true},
		{"the same error for ever", "stall", Codex, "Reconnecting... waiting for network", true},
		{"a line without end", "flood", Claude, "longer than", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			options := Options{}
			if tt.prompt == "silent" || tt.prompt == "stall" {
				options.Quiet = 300 * time.Millisecond
			}
			f := failed(t, tt.open, options, tt.prompt)
			// A slow machine may not even have started the program in that time: then it gets more.
			for tt.prompt == "stall" && !strings.Contains(f.Message, tt.says) && options.Quiet < time.Minute {
				options.Quiet *= 2
				f = failed(t, tt.open, options, tt.prompt)
			}
			if f.Code != apierr.AgentError || f.Retryable != tt.retryable || !strings.Contains(f.Message, tt.says) || strings.Contains(f.Message, "\n") {
				t.Errorf("got %s, retryable %t: %q, want %q", f.Code, f.Retryable, f.Message, tt.says)
			}
		})
	}
}

// failed runs a program and returns what its failure says.
func failed(t *testing.T, open func(Options) *Backend, o Options, prompt string) *apierr.Error {
	t.Helper()
	a := backendtest.Send(t.Context(), open(newBench(t).options(o)), backend.State{}, say(prompt))
	f, ok := errors.AsType[*apierr.Error](a.Err)
	if !ok {
		t.Fatalf("got error %v, want a fault", a.Err)
	}
	return f
}

func TestALimitOfTurnsThatTheProgramDoesNotKeepIsKeptForIt(t *testing.T) {
	t.Parallel()
	turn := say("replay codex-all-items")
	turn.Limits.Turns = 2
	a := backendtest.Send(t.Context(), Codex(newBench(t).options(Options{})), backend.State{}, turn)
	if a.Err != nil || a.Outcome.Finish != event.FinishMaxTurns || strings.Contains(a.Text, "Done.") {
		t.Errorf("got %+v, error %v, text %q", a.Outcome, a.Err, a.Text)
	}
}

func TestWhatAProgramHasStartedEndsWithIt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("there are no process groups here")
		return
	}
	tests := []struct {
		name, prompt string
	}{
		{"when the program ends by itself", "orphan"},
		{"when it is stopped and does not listen", "deaf"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bench := newBench(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := New(bench.options(Options{}))
			s, err := b.Start(ctx, backend.Start{})
			if err != nil {
				t.Fatal(err)
			}
			started := time.Now()
			_, err = s.Send(ctx, say(tt.prompt), func(backend.Chunk) error {
				if tt.prompt == "deaf" {
					started = time.Now()
					cancel()
				}
				return nil
			})
			if stopped := errors.Is(err, context.Canceled); stopped != (tt.prompt == "deaf") {
				t.Errorf("got error %v", err)
			}
			if took := time.Since(started); took > 3*time.Second {
				t.Errorf("it took %s to end", took)
			}
			pid, err := strconv.Atoi(bench.left("child"))
			if err != nil {
				t.Fatal(err)
			}
			ended(t, pid)
		})
	}
}

// ended waits for a process to be gone, or to be a zombie.
func ended(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && strings.Contains(string(stat), ") Z ") || syscall.Kill(pid, 0) != nil {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("process %d still runs", pid)
}

func TestAProgramGetsNoSecretsOfThisProcess(t *testing.T) {
	t.Setenv("KEY_PEPPER", "secret")
	t.Setenv("ANTHROPIC_API_KEY", "for claude")
	t.Setenv("CLAUDE_CONFIG_DIR", "/nowhere")
	t.Setenv("TEAM_TOKEN", "for all")
	bench := newBench(t)
	o := bench.options(Options{PassEnv: []string{"TEAM_TOKEN"}, ClearEnv: []string{"CLAUDE_CONFIG_DIR"}})
	if a := backendtest.Send(t.Context(), Claude(o), backend.State{}, say("replay claude-resume")); a.Err != nil {
		t.Fatal(a.Err)
	}
	env := strings.Split(bench.left("env"), "\n")
	for pair, want := range map[string]bool{
		"KEY_PEPPER=secret": false, "CLAUDE_CONFIG_DIR=/nowhere": false, "ANTHROPIC_API_KEY=for claude": true, "TEAM_TOKEN=for all": true,
	} {
		if got := slices.Contains(env, pair); got != want {
			t.Errorf("%s: got %t, want %t", pair, got, want)
		}
	}
	o.ClearEnv = []string{"*"}
	if a := backendtest.Send(t.Context(), Claude(o), backend.State{}, say("replay claude-resume")); a.Err != nil {
		t.Fatal(a.Err)
	}
	if left := bench.left("env"); strings.Contains(left, "HOME=") || !strings.Contains(left, "TEAM_TOKEN=") {
		t.Errorf("of a cleared environment there is %q", left)
	}
}

func TestWhereAProgramWorks(t *testing.T) {
	t.Parallel()
	bench := newBench(t)
	o := bench.options(Options{})
	o.Workspace = filepath.Join(bench.dir, "threads", "{thread}")
	if a := backendtest.Send(t.Context(), Claude(o), backend.State{}, say("replay claude-resume")); a.Err != nil {
		t.Fatal(a.Err)
	}
	if _, err := os.Stat(filepath.Join(bench.dir, "threads", "thr_1", "prompt")); err != nil {
		t.Errorf("it did not work in the folder of its thread: %v", err)
	}
	for name, workspace := range map[string]string{"none": "", "one that is not there": filepath.Join(bench.dir, "no")} {
		o.Workspace = workspace
		if a := backendtest.Send(t.Context(), Claude(o), backend.State{}, say("replay claude-resume")); apierr.CodeOf(a.Err) != apierr.AgentError {
			t.Errorf("%s: got error %v", name, a.Err)
		}
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := Codex(Options{Command: "no-such-program", Workspace: t.TempDir()})
	err := backend.Available(t.Context(), b)
	if err == nil || !strings.Contains(apierr.From(err).Message, "npm install -g @openai/codex") {
		t.Errorf("got %v", err)
	}
	if a := backendtest.Send(t.Context(), b, backend.State{}, say("hi")); a.Err == nil {
		t.Error("it started")
	}
	if backend.TransportOf(b) != backend.LocalAgent || backend.EstimateCost(New(Options{UnitCost: 0.1}), backend.Outcome{}) != 0.1 {
		t.Error("it is not a local agent, or costs nothing")
	}
}
