package scripted

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/go-json-experiment/json/jsontext"
)

func TestParse(t *testing.T) {
	t.Parallel()
	call := func(name, args string) Call { return Call{Name: name, Args: json.RawMessage(args)} }
	tests := []struct {
		line string
		want Command
	}{
		{"/say hello  world", Say{Text: "hello  world"}},
		{"/say /tool clock", Say{Text: "/tool clock"}},
		{"   /think hm   ", Think{Text: "hm"}},
		{"/stream 3 0", Stream{Deltas: 3, Bytes: 20}},
		{"/stream 3 2.5 100", Stream{Deltas: 3, Rate: 2.5, Bytes: 100}},
		{"/tool clock", Use{Calls: []Call{call("clock", "{}")}}},
		{"/tool clock {}", Use{Calls: []Call{call("clock", "{}")}}},
		{`/tool echo{"text":"a;b}"}`, Use{Calls: []Call{call("echo", `{"text":"a;b}"}`)}}},
		{`/tools echo {"text":"; x {}"}; clock; echo {"text":"é"}`,
			Use{Calls: []Call{call("echo", `{"text":"; x {}"}`), call("clock", "{}"), call("echo", `{"text":"é"}`)}}},
		{`/client-tool pick {"n":1}`, Use{Calls: []Call{call("pick", `{"n":1}`)}, Gate: backend.GateClient}},
		{`/approve pay {"eur":7}`, Use{Calls: []Call{call("pay", `{"eur":7}`)}, Gate: backend.GateApproval}},
		{`/ask Is "x" < y?`, Use{Calls: []Call{call("ask_user", `{"question":"Is \"x\" < y?"}`)}, Gate: backend.GateInput}},
		{"/plan a ; b;", Use{Calls: []Call{call("plan", `{"steps":[{"content":"a","done":false},{"content":"b","done":false}]}`)}}},
		{"/answer T | some | text", Report{Args: json.RawMessage(`{"title":"T","format":"markdown","content":"some | text"}`)}},
		{"/answer text", Report{Args: json.RawMessage(`{"format":"markdown","content":"text"}`)}},
		{`/custom my.metric {"value":1}`, Emit{Event: event.Custom{Type: "my.metric", Data: json.RawMessage(`{"value":1}`)}}},
		{"/custom ping", Emit{Event: event.Custom{Type: "ping", Data: json.RawMessage("{}")}}},
		{"/sleep 1.5s", Sleep{For: 1500 * time.Millisecond}},
		{"/fail agent_error", Fail{Code: apierr.AgentError, Line: 1}},
		{"/fail agent_error retryable", Fail{Code: apierr.AgentError, Retryable: true, Line: 1}},
		{"/fail rate_limit_exceeded", Fail{Code: apierr.RateLimitExceeded, Retryable: true, Line: 1}},
		{"/usage 120 30", Count{Usage: event.Usage{InputTokens: 120, OutputTokens: 30}}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tt.line)
			if err != nil {
				t.Fatalf("parse: %v", err)
			}
			if len(got) != 1 || !reflect.DeepEqual(got[0], tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParseNamesTheLineAndTheCure(t *testing.T) {
	t.Parallel()
	tests := []struct{ line, want string }{
		{"/sya hello", `"/sya" is not a command`},
		{"/plan ; ;", "there is no step"},
		{"/plan " + strings.Repeat("a;", 101), "at most 100"},
		{"/plan-done 1", "write /plan STEP; STEP first"},
		{"/plan-finish well", "write /plan STEP; STEP first"},
		{"/plan-finish", "the summary is missing"},
		{"/plan-done x", "not a number from 1 to 100"},
		{"/answer T |", "the text of the answer is missing"},
		{"/custom done {}", "choose another"},
		{"/custom 1x {}", "begin with a letter"},
		{"/custom x [1]", "must be a JSON object"},
		{"hello", `"hello" is not a command; there are /say TEXT`},
		{"/say", "there is nothing to say; write /say TEXT"},
		{"/think", "there is nothing to think"},
		{"/stream", "it takes 2 or 3 numbers, not 0"},
		{"/stream 5 x", `RATE "x" is not a number`},
		{"/stream 5 NaN", `RATE "NaN" is not a number`},
		{"/stream 5 -1", `RATE "-1" is not a number`},
		{"/stream 0 1", `N "0" is not a number from 1 to 1000000`},
		{"/stream 9999999 1", `N "9999999" is not a number`},
		{"/stream 1 1 70000", `BYTES "70000" is not a number`},
		{"/tool", `"" is not the name of a tool; write /tool NAME {json}, for example /tool calculator`},
		{"/tool a.b {}", `"a.b" is not the name of a tool`},
		{"/tool clock [1]", "the arguments of clock are [1], not an object"},
		{"/tool clock {", "the arguments of clock are not JSON"},
		{`/tool clock {"a":1,"a":2}`, "the arguments of clock are not JSON"},
		{"/tool clock {} now", `"now" is left over`},
		{"/tools clock {} echo {}", `a ";" is missing before "echo {}"`},
		{"/tools clock {};", `"" is not the name of a tool`},
		{"/ask", "the question is missing"},
		{"/sleep", `"" is not a duration`},
		{"/sleep -1s", `"-1s" is not a duration`},
		{"/sleep 25h", `"25h" is not a duration`},
		{"/fail", `"" is not a code; there are [auth_failed`},
		{"/fail oops", `"oops" is not a code`},
		{"/fail agent_error later", `"later" is not "retryable"`},
		{"/usage 1", "it takes 2 numbers, not 1"},
		{"/usage 1 x", `OUT "x" is not a number`},
		{"/usage -1 2", `IN "-1" is not a number`},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("/say hi\n\n" + tt.line + "\n/say bye")
			f, ok := errors.AsType[*apierr.Error](err)
			if !ok || f.Code != apierr.AgentError || f.Retryable {
				t.Fatalf("got %v, want a final %s", err, apierr.AgentError)
			}
			if !strings.HasPrefix(f.Message, "script line 3: ") || !strings.Contains(f.Message, tt.want) {
				t.Errorf("got %q, want %q on line 3", f.Message, tt.want)
			}
		})
	}
}

func TestALineMustFitThePlanBeforeIt(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"/plan a\n/plan-done 2":                  "script line 2: there is no step 2; the plan has 1",
		"/plan a\n/plan-finish b\n/plan-done 1":  "script line 3: there is no plan yet",
		"/plan a\n/plan b; c\n/plan-done 3":      "script line 3: there is no step 3; the plan has 2",
		"/plan a; b\n/plan-done 1\n/plan-done 1": "",
	} {
		if _, err := Parse(script); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", script, err, want)
		}
	}
}

func TestEveryExampleParses(t *testing.T) {
	t.Parallel()
	for _, f := range forms() {
		if _, err := Parse("/plan first\n" + f.example); err != nil {
			t.Errorf("example of %s: %v", f.name, err)
		}
		if !strings.HasPrefix(f.syntax, "/"+f.name+" ") {
			t.Errorf("syntax of %s is %q", f.name, f.syntax)
		}
	}
}

func TestIsScript(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]bool{
		"/say hi": true, "\n\n  /say hi": true, "/x": true,
		"": false, "/": false, "hi /say": false, "// comment": false, "/1": false, "hello\n/say hi": false,
	} {
		if got := IsScript(prompt); got != want {
			t.Errorf("%q: got %t, want %t", prompt, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, form := range forms() {
		f.Add(form.example)
	}
	f.Add("/tools a {\"x\":\"};\"} ; b\n/say \u2028\xff")
	f.Fuzz(func(t *testing.T, script string) {
		commands, err := Parse(script)
		if err != nil {
			if apierr.CodeOf(err) != apierr.AgentError {
				t.Fatalf("got %v, want a fault", err)
			}
			return
		}
		for _, c := range commands {
			u, ok := c.(Use)
			if !ok {
				continue
			}
			for _, call := range u.Calls {
				if !id.Valid(call.Name) || !jsontext.Value(call.Args).IsValid() || jsontext.Value(call.Args).Kind() != '{' {
					t.Errorf("got call %q with arguments %s", call.Name, call.Args)
				}
			}
		}
	})
}
