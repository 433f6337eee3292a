package command_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/sandbox"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/command"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
)

func TestMain(m *testing.M) {
	sandbox.Enter()
	os.Exit(m.Run())
}

const schema = `{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}},"additionalProperties":false}`

func secrets(name string) (string, error) {
	if name == "TOKEN" {
		return "token-12345", nil
	}
	return "", errors.New("there is no secret " + name)
}

func newTool(t *testing.T, p command.Program) tool.Tool {
	t.Helper()
	subject, _, err := command.New(tool.Spec{
		Name: "program", Description: "Runs a program.", Schema: json.RawMessage(schema),
		Effect: tool.EffectUnsafe, Approval: tool.ApprovalNever, MaxOutput: 1000,
	}, p, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return subject
}

func call(t *testing.T, subject tool.Tool, args string) (tool.Result, error) {
	t.Helper()
	return subject.Call(t.Context(), tool.Call{ID: "call_1", Args: json.RawMessage(args), Progress: func(string) {}})
}

func TestTool(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, newTool(t, command.Program{Argv: []string{"sh", "-c", `test "$1" != 60 || sleep 60; cat`, "sh", "{n}"}, Stdin: "{text}"}), tooltest.Cases{
		Good: []string{`{"text":"hi"}`, `{"text":"hi","n":1}`},
		Bad:  []string{`{"text":7}`, `{"n":-1}`},
		Slow: `{"text":"x","n":60}`,
	})
}

func TestAProgramEmitsEventsWhereThatIsConfigured(t *testing.T) {
	t.Parallel()
	argv := []string{"sh", "-c", `echo before; echo '::event {{"type":"step","data":{{"n":1}}}}'; echo after`}
	with, err := call(t, newTool(t, command.Program{Argv: argv, Events: true}), `{}`)
	if err != nil || with.Content != "before\nafter\n" || len(with.Events) != 1 || with.Events[0].Type != "step" {
		t.Errorf("got %q with %v, %v, want the event step", with.Content, with.Events, err)
	}
	without, err := call(t, newTool(t, command.Program{Argv: argv}), `{}`)
	if err != nil || len(without.Events) > 0 || !strings.Contains(without.Content, "::event") {
		t.Errorf("not configured: got %q with %v, %v, want output alone", without.Content, without.Events, err)
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		program command.Program
		args    string
		want    string
	}{
		{"an argument stays one", command.Program{Argv: []string{"printf", "<%s>", "{text}"}}, `{"text":"a b; rm -rf / $(id) 'x'"}`, "<a b; rm -rf / $(id) 'x'>"},
		{"an argument that is missing is left out", command.Program{Argv: []string{"printf", "<%s>", "a", "--n={n}"}}, `{}`, "<a>"},
		{"a part of an item may begin with a dash", command.Program{Argv: []string{"printf", "%s", "--n={n}"}}, `{"n":-3}`, "--n=-3"},
		{"behind two dashes nothing is an option", command.Program{Argv: []string{"printf", "--", "%s", "{text}"}}, `{"text":"-x"}`, "-x"},
		{"standard input", command.Program{Argv: []string{"cat"}, Stdin: "said: {text}"}, `{"text":"hi"}`, "said: hi"},
		{"an environment of its own", command.Program{Argv: []string{"sh", "-c", "echo $KEY $HOME $USER"}, Env: map[string]string{"KEY": "k:${TOKEN}"}}, `{}`, "k:token-12345 /tmp\n"},
		{"a failure says so first", command.Program{Argv: []string{"sh", "-c", "echo out; echo bad >&2; exit 3"}}, `{}`, "[exit status 3]\nout\nbad\n"},
		{"what prints too much is cut", command.Program{Argv: []string{"sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x"}}, `{}`, strings.Repeat("x", 1000) + "\n[cut: 4000 more bytes]"},
		{
			"what uses too much is stopped",
			command.Program{Argv: []string{"sh", "-c", "while :; do :; done"}, Sandbox: sandbox.Policy{Limits: sandbox.Limits{CPU: time.Second}}},
			`{}`, "[signal: killed: it may have used more than it may]\n",
		},
		{"where it runs", command.Program{Argv: []string{"sh", "-c", "pwd; id -u"}}, `{}`, "/work\n65534\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := call(t, newTool(t, test.program), test.args)
			if err != nil || got.Content != test.want {
				t.Errorf("got  %q, %v\nwant %q", got.Content, err, test.want)
			}
		})
	}
}

func TestArgumentsThatNoProgramGets(t *testing.T) {
	t.Parallel()
	subject := newTool(t, command.Program{Argv: []string{"echo", "{text}"}})
	for args, want := range map[string]string{
		`{"text":"--help"}`:                               "must not begin with a dash",
		`{"text":"a\u0000b"}`:                             "null character",
		`{"text":"` + strings.Repeat("x", 200_000) + `"}`: "longer than",
	} {
		if _, err := call(t, subject, args); apierr.CodeOf(err) != apierr.ToolError || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", args, err, want)
		}
	}
	begins := newTool(t, command.Program{Argv: []string{"echo", "{text}.txt"}})
	if got, err := call(t, begins, `{"text":"-rf"}`); apierr.CodeOf(err) != apierr.ToolError {
		t.Errorf("an item that begins with what the model says became an option: %+v, %v", got, err)
	}
}

func TestOutputIsReported(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	subject := newTool(t, command.Program{Argv: []string{"sh", "-c", "echo one; echo two >&2"}})
	_, err := subject.Call(t.Context(), tool.Call{ID: "call_1", Progress: func(s string) { told.WriteString(s) }})
	if err != nil || told.String() != "one\ntwo\n" {
		t.Errorf("got %q, %v", told.String(), err)
	}
}

func TestAToolThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]command.Program{
		"no-such-program cannot be had": {Argv: []string{"no-such-program"}},
		"isolation: best-effort":        {Argv: []string{"sh"}, Sandbox: sandbox.Policy{Dir: "/no/such/folder"}},
		"executable file not found":     {Argv: []string{"no-such-program"}, BestEffort: true},
		"argv[1]: ":                     {Argv: []string{"sh", "{"}},
		"stdin: ":                       {Argv: []string{"sh"}, Stdin: "}"},
		"there is no secret ME":         {Argv: []string{"sh"}, Env: map[string]string{"A": "${ME}"}},
		"env.A: arguments of the model": {Argv: []string{"sh"}, Env: map[string]string{"A": "{text}"}},
	} {
		if _, _, err := command.New(tool.Spec{Name: "x"}, p, secrets); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", p, err, want)
		}
	}
}
