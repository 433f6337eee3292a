package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	jsonv2 "github.com/go-json-experiment/json"
)

// ran is a request of the shared stack that has ended.
func ran(t *testing.T, script string) (requestID, threadID string) {
	t.Helper()
	out, _ := execute(t, 0, shared().at("--json", "chat", "-m", script)...)
	e, err := event.Decode([]byte(out[:strings.IndexByte(out, '\n')]))
	if err != nil {
		t.Fatal(err)
	}
	metadata, ok := e.Body.(event.Metadata)
	if !ok {
		t.Fatalf("the first event is %s", e.Body.Name())
	}
	return e.RequestID, metadata.ThreadID
}

const calculates = "/think hm\n/say hello there\n/tool calculator {\"expression\":\"6*7\"}\n/say done"

func TestInspectShowsEveryEvent(t *testing.T) {
	t.Parallel()
	request, thread := ran(t, calculates)
	for _, id := range []string{request, thread} {
		out, side := execute(t, 0, shared().at("inspect", id)...)
		for _, want := range []string{
			`(?m)^` + request + `, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`,
			`(?m)^\d\d:\d\d:\d\d\.\d{3}    \+0\.000s      0  claim          \{"epoch":1,`,
			`(?m) +1  input          .*"content":"/think hm`,
			`(?m) text           .*"delta":"hello "`,
			`(?m) tool_call      .*"name":"calculator"`,
			`(?m) tool_result    .*"summary":"6\*7 = 42"`,
			`(?m)\+\d\.\d{3}s +\d+  done           \{.*"text":"hello there"`,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s: no %s in\n%s", id, want, out)
			}
		}
		if side != "" {
			t.Errorf("%s: got %q on standard error", id, side)
		}
		out, side = execute(t, 0, shared().at("inspect", id, "--validate")...)
		if out != "" || !regexp.MustCompile(`^\d+ events checked: 0 wrong, 0 of types without a schema\n$`).MatchString(side) {
			t.Errorf("%s: got %q on standard error", id, side)
		}
	}
}

func TestInspectFilters(t *testing.T) {
	t.Parallel()
	request, thread := ran(t, calculates)
	tests := map[string]struct {
		args []string
		want string // the types of the events
	}{
		"by type":             {[]string{request, "--type=tool_result,done"}, "tool_result tool_result done"},
		"of a thread by type": {[]string{thread, "--type=done"}, "done"},
		"the last ones":       {[]string{request, "--limit=2"}, "usage done"},
		"the last of a type":  {[]string{thread, "--type=tool_result", "--limit=1"}, "tool_result"},
		"from now on":         {[]string{request, "--since=0s"}, ""},
		"of the last hour":    {[]string{request, "--since=1h", "--type=metadata"}, "metadata"},
		"before a time":       {[]string{thread, "--until=2026-01-31T12:00:00Z"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _ := execute(t, 0, shared().at(append([]string{"--json", "inspect"}, test.args...)...)...)
			var types []string
			for line := range strings.Lines(out) {
				e, err := event.Decode([]byte(line))
				if err != nil {
					t.Fatal(err)
				}
				types = append(types, string(e.Body.Name()))
			}
			if got := strings.Join(types, " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// What Tarko's clients would get can be looked at, and held against its schemas, in both vocabularies.
func TestInspectInTarkosWords(t *testing.T) {
	t.Parallel()
	request, thread := ran(t, calculates)
	tests := map[string]struct{ args, want []string }{
		"as its server sends them": {
			[]string{request, "--format=tarko"},
			[]string{`user_message   \{"content":"/think hm`, `assistant_streaming_message \{"content":"hello "`, `tool_result    \{.*6\*7 = 42`, `agent_run_end  \{.*"status":"idle"`},
		},
		"as it documents them": {
			[]string{thread, "--format=protocol"},
			[]string{`user_message   \{"content":"/think hm.*"role":"user"`, `assistant_message_delta \{"delta":"hello "`, `tool_result    \{.*"success":true`},
		},
		"by Tarko's types": {
			[]string{request, "--format=tarko", "--type=tool_call", "--since=1h"}, []string{`^req_.*\n.* tool_call .*\n$`},
		},
		"counted": {[]string{request, "--format=protocol", "--stats"}, []string{`assistant_message_delta +3 `, `\n1 request,`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, side := execute(t, 0, shared().at(append([]string{"inspect"}, test.args...)...)...)
			_, checked := execute(t, 0, shared().at(append([]string{"inspect", "--validate"}, test.args...)...)...)
			for _, want := range test.want {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("no %s in\n%s", want, out)
				}
			}
			if side != "" || !strings.Contains(checked, " 0 wrong, 0 of types without a schema") {
				t.Errorf("got %q on standard error, the check says %q", side, checked)
			}
		})
	}
	out, _ := execute(t, 0, shared().at("--json", "inspect", request, "--format=tarko", "--limit=1")...)
	if e, err := eventstream.DecodeFlat([]byte(out)); err != nil || e.Type != "agent_run_end" {
		t.Errorf("the last event is %s, %v", out, err)
	}
}

func TestInspectCounts(t *testing.T) {
	t.Parallel()
	request, thread := ran(t, calculates)
	execute(t, 0, shared().at("follow-up", request, "/say again")...)
	out, _ := execute(t, 0, shared().at("inspect", request, "--stats")...)
	for _, want := range []string{`^TYPE +EVENTS +BYTES\n`, `(?m)^done +1 +\d+$`, `(?m)^tool_result +2 +\d+$`, `(?m)^all +\d+ +\d+\n1 request, \d`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	out, _ = execute(t, 0, shared().at("--json", "inspect", thread, "--stats", "--type=input")...)
	var counted struct {
		Events, Requests int
		ByType           map[string]struct{ Events int }
	}
	if err := jsonv2.Unmarshal([]byte(out), &counted, jsonv2.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if counted.Events < 1 || counted.ByType["input"].Events != counted.Events || counted.Requests != counted.Events {
		t.Errorf("got %s", out)
	}
}

func TestInspectExports(t *testing.T) {
	t.Parallel()
	request, _ := ran(t, calculates)
	name := filepath.Join(t.TempDir(), "events.json")
	_, side := execute(t, 0, shared().at("inspect", request, "--type=text", "-o", name)...)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var lines []json.RawMessage
	if err := jsonv2.Unmarshal(text, &lines); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if e, err := event.Decode(line); err != nil || e.Body.Name() != event.NameText {
			t.Errorf("%s: %v", line, err)
		}
	}
	if len(lines) == 0 || !strings.Contains(side, name) {
		t.Errorf("%d events; it said %q", len(lines), side)
	}
}

// A request that has not ended is shown as far as it goes, without waiting for its end.
func TestInspectARequestThatRuns(t *testing.T) {
	t.Parallel()
	c := begin(t, nil, shared().at("--json", "chat", "-m", "/say hello\n/sleep 30s")...)
	c.out.await(t, `"delta":"hello"`)
	request := regexp.MustCompile(`req_\w+`).FindString(c.out.String())
	out, _ := execute(t, 0, shared().at("inspect", request)...)
	if !strings.Contains(out, `"delta":"hello"`) || strings.Contains(out, "done") {
		t.Errorf("got\n%s", out)
	}
	execute(t, 0, shared().at("abort", request)...)
	_ = c.in.Close()
	c.wait(t, exitFailed)
}

func TestInspectRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"what is not there":     {[]string{"req_unheardof"}, exitFailed, "neither a request nor a thread req_unheardof"},
		"an invalid type":       {[]string{"req_1", "--type=txet"}, exitFailed, `no event is of the type "txet"; there are [aborted `},
		"an invalid time":       {[]string{"req_1", "--since=yesterday"}, exitUsage, "write one such as 2026-01-31T12:00:00Z, or 10m"},
		"an invalid format":     {[]string{"req_1", "--format=yaml"}, exitUsage, "--format"},
		"fewer than none":       {[]string{"req_1", "--limit=-1"}, exitUsage, "--limit"},
		"two formats":           {[]string{"req_1", "--stats", "-o", "x"}, exitUsage, "can't be used together"},
		"a file without folder": {[]string{"THREAD", "-o", "/nowhere/at/all.json"}, exitFailed, "/nowhere/at"},
	}
	_, thread := ran(t, "/say hello")
	for name, test := range tests {
		for i, arg := range test.args {
			test.args[i] = strings.Replace(arg, "THREAD", thread, 1)
		}
		if _, side := execute(t, test.code, shared().at(append([]string{"inspect"}, test.args...)...)...); !strings.Contains(side, test.want) {
			t.Errorf("%s: no %q in %q", name, test.want, side)
		}
	}
}
