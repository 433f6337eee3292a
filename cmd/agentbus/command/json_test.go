package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// elsewhere lists the commands whose JSON another test reads, or that have no result.
func elsewhere() []string {
	return []string{
		"dev", "chat", "tail", // startDev, TestTail
		"agent-runner", "tool-executor", "mcp serve", "mcp login", "acp", // they run until they are stopped
		"help", "completion", "complete", // they print texts
		"agents remote", "agents add", "agents set", "agents remove", "agents rotate", "agents token", // TestRemoteAgents
	}
}

func TestEveryCommandWritesJSON(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := own(t, "--data="+data)
	request, thread := background(t, s, "/say hello")
	execute(t, 0, s.at("tail", request)...)
	running, _ := background(t, s, "/sleep 1m")
	steered, _ := background(t, s, "/sleep 1m")
	asking, _ := background(t, s, "/client-tool pick {}")
	execute(t, 0, s.at("tail", asking)...)
	key, _ := begin(t, pepperEnv(), "--json", "keys", "--nats="+s.NATS, "create", "alice").wait(t, 0)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(key), &made, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	keys := func(args ...string) []string { return append([]string{"keys", "--nats=" + s.NATS}, args...) }
	covered := elsewhere()
	for _, test := range []struct {
		command string
		args    []string
	}{
		{"init", []string{"init", t.TempDir()}},
		{"check", []string{"check", configFile(t, "demo: true\n")}},
		{"run", s.at("run", "demo", "/say hi")},
		{"run", s.at("run", "demo", "-b", "/say hi")},
		{"inspect", s.at("inspect", request)},
		{"inspect", s.at("inspect", request, "--stats")},
		{"steer", s.at("steer", steered, "faster")},
		{"follow-up", s.at("follow-up", request, "/say more")},
		{"abort", s.at("abort", running)},
		{"actions", s.at("actions")},
		{"threads show", s.at("threads")},
		{"threads show", s.at("threads", thread)},
		{"threads delete", s.at("threads", "delete", deletable(t, s))},
		{"agents list", s.at("agents")},
		{"keys create", keys("create", "bob")},
		{"keys list", keys("list")},
		{"keys revoke", keys("revoke", made.ID)},
		{"nats-config", []string{"nats-config", t.TempDir()}},
		{"provision", []string{"provision", "--nats=" + s.NATS}},
		{"history rebuild", []string{"history", "rebuild", "--data=" + data}},
		{"version", []string{"version"}},
	} {
		covered = append(covered, test.command)
		out, side := begin(t, pepperEnv(), append([]string{"--json"}, test.args...)...).wait(t, 0)
		if out == "" {
			t.Errorf("%s: no output; standard error is %q", test.command, side)
		}
		for line := range strings.Lines(out) {
			var value map[string]any
			if err := json.Unmarshal([]byte(line), &value); err != nil {
				t.Errorf("%s: got %q: %v", test.command, line, err)
			}
		}
	}
	for _, command := range commands(t) {
		if !slices.Contains(covered, command) {
			t.Errorf("no test runs %q with --json", command)
		}
	}
}

// commands lists the commands that do something.
func commands(t *testing.T) []string {
	t.Helper()
	parser, err := newParser(t.Context(), &console{}, &commandLine{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, node := range parser.Model.Leaves(false) {
		names = append(names, strings.TrimPrefix(node.Path(), "agentbus "))
	}
	return names
}

func pepperEnv() map[string]string {
	return map[string]string{"KEY_PEPPER": "a pepper of more than 16 bytes"}
}

// background starts a request of the agent demo.
func background(t *testing.T, s stack, script string) (requestID, threadID string) {
	t.Helper()
	out, _ := execute(t, 0, s.at("--json", "run", "-b", "demo", script)...)
	var started struct{ RequestID, ThreadID string }
	if err := json.Unmarshal([]byte(out), &started, json.MatchCaseInsensitiveNames(true)); err != nil || started.RequestID == "" {
		t.Fatalf("got %q, %v", out, err)
	}
	return started.RequestID, started.ThreadID
}

// deletable returns a thread without a running request.
func deletable(t *testing.T, s stack) string {
	t.Helper()
	request, thread := background(t, s, "/say gone")
	execute(t, 0, s.at("tail", request)...)
	return thread
}

func TestARequestInTheBackground(t *testing.T) {
	t.Parallel()
	s := shared()
	out, side := execute(t, 0, s.at("run", "demo", "-b", "/say", "from afar")...)
	request := strings.TrimSpace(out)
	if !strings.HasPrefix(request, "req_") || !strings.Contains(side, "agentbus tail "+request) || !strings.Contains(side, "--thread thr_") {
		t.Fatalf("got %q and %q", out, side)
	}
	if out, _ := execute(t, 0, s.at("tail", request)...); out != "from afar\n" {
		t.Errorf("tail: got %q", out)
	}
	if _, side := execute(t, exitFailed, s.at("run", "-b", "nope", "hi")...); !strings.Contains(side, "`agentbus agents` lists the agents") {
		t.Errorf("an agent that does not exist: got %q", side)
	}
}

func TestThreadsAreDeleted(t *testing.T) {
	t.Parallel()
	s := shared()
	thread := deletable(t, s)
	if out, _ := execute(t, 0, s.at("threads", "delete", thread)...); out != "deleted "+thread+"\n" {
		t.Errorf("got %q", out)
	}
	if _, side := execute(t, exitFailed, s.at("threads", thread)...); !strings.Contains(side, "thread_not_found") {
		t.Errorf("after the deletion: %q", side)
	}
}

func TestAnAddressNeedsNoScheme(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(shared().URL, "http://")
	if out, _ := execute(t, 0, "--url="+address, "run", "demo", "/say hi"); out != "hi\n" {
		t.Errorf("got %q", out)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		words []string
		want  []string
		not   string
	}{
		"commands":              {nil, []string{"chat", "keys", "completion", "--url"}, "complete"},
		"commands of a command": {[]string{"keys"}, []string{"create", "list", "revoke"}, "chat"},
		"values and flags":      {[]string{"completion"}, []string{"bash", "fish", "zsh", "--json"}, "chat"},
		"flags after a flag":    {[]string{"chat", "--json"}, []string{"--thread", "--model"}, "keys"},
	}
	for name, test := range tests {
		out, _ := execute(t, 0, append([]string{"complete", "--"}, test.words...)...)
		words := strings.Split(strings.TrimSpace(out), "\n")
		for _, want := range test.want {
			if !slices.Contains(words, want) {
				t.Errorf("%s: got %q, want %q among them", name, words, want)
			}
		}
		if slices.Contains(words, test.not) {
			t.Errorf("%s: got %q among %q", name, test.not, words)
		}
	}
}
