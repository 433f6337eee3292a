package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/sse"
)

// secretOutput is part of what the tools of these tests return; clients must not receive it.
const secretOutput = "SECRET"

// TestClientsGetTheStatusAndTheSummaryOfAToolResult looks at each event about a result, of each kind of tool, on each route.
func TestClientsGetTheStatusAndTheSummaryOfAToolResult(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind, agent string
		start       func(t *testing.T, agent string) transcript
		status      event.ToolStatus
		summary     string
	}{
		{"a short result", "demo", of(`/tool echo {"text":"SECRET 1"}`), event.ToolSuccess, "8 bytes"},
		{"a long result", "demo", of(`/tool echo {"text":"SECRET","bytes":5000}`), event.ToolSuccess, "5000 bytes"},
		{"an agent that shows it to those who ask", "open", of(`/tool echo {"text":"SECRET 1"}`), event.ToolSuccess, "8 bytes"},
		{"a command of a program", "coder", of("read"), event.ToolSuccess, "17 bytes"},
		{"a client tool", "demo", answered(`/client-tool pick {}`, `{"file":"SECRET"}`), event.ToolSuccess, "17 bytes"},
		{"an answer of the user", "demo", answered("/ask Which?", `"SECRET"`), event.ToolSuccess, "the user answered"},
		{"a called agent", "lead", of(ask("helper", `/tool echo {"text":"SECRET 1"}`, "/say SECRET")), event.ToolSuccess, "helper answered in 6 characters"},
		{"a tool of an MCP server", "connected", of(`/tool site__add {"a":40,"b":2}`), event.ToolSuccess, "2 bytes"},
		{"a failed tool of an MCP server", "connected", answered(`/tool site__fail {}`, ""), event.ToolFailed, "error, 16 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			if tt.agent == "connected" {
				called(t, `/tool site__add {"a":1,"b":1}`) // its tools have been found
			}
			tr := tt.start(t, tt.agent)
			var found bool
			for _, r := range tr.results() {
				found = found || r.Status == tt.status && r.Summary == tt.summary
			}
			if !found {
				t.Errorf("got %v, want %s with %q", tr.results(), tt.status, tt.summary)
			}
			checkRoutes(t, tr)
		})
	}
}

// of starts a request and reads its stream.
func of(lines ...string) func(*testing.T, string) transcript {
	return func(t *testing.T, agent string) transcript {
		t.Helper()
		return post(t, agent, prompt(lines...))
	}
}

// answered starts a request that needs an action, and reads the stream of the one that answers it.
func answered(line, result string) func(*testing.T, string) transcript {
	return func(t *testing.T, agent string) transcript {
		t.Helper()
		tr, actions := paused(t, agent, line)
		if len(actions) != 1 {
			t.Fatalf("got %d actions, want one", len(actions))
		}
		answer := event.ActionResult{ActionID: actions[0].ActionID, Status: event.ActionSuccess}
		if result != "" {
			answer = success(actions[0].ActionID, result)
		}
		return post(t, agent, resolve(tr.ThreadID, answer))
	}
}

// checkRoutes checks that no route has the output of a tool of the request.
func checkRoutes(t *testing.T, tr transcript) {
	t.Helper()
	stream := "/v1/requests/" + tr.RequestID + "/stream"
	checkNoOutput(t, "the response", tr.Lines)
	for _, path := range []string{stream, stream + "?include=extended", stream + "?include=subagent"} {
		checkNoOutput(t, path, readStream(t, call(t.Context(), t, http.MethodGet, path, ""), -1).Lines)
		checkNoOutput(t, path+" as lines", readLines(t, call(t.Context(), t, http.MethodGet, path, "", header{"Accept", "application/x-ndjson"})).Lines)
	}
	for _, e := range tr.Events[:2] {
		checkNoOutput(t, "a resumed stream", resume(t, tr.RequestID, string(e.ID)).Lines)
	}
	thread := "/v1/threads/" + tr.ThreadID
	follow := call(t.Context(), t, http.MethodGet, thread+"/stream?from=start&include=extended", "")
	checkNoOutput(t, "the thread", readUntilEnd(t, follow, tr.RequestID))
	checkNoOutput(t, "the list of events", listed(t, thread+"/events?limit=1000"))
	messages := readAll(t, call(t.Context(), t, http.MethodGet, thread+"/messages", ""))
	for _, part := range strings.Split(messages, `"type":"tool_result"`)[1:] {
		if head, _, _ := strings.Cut(part, "}"); strings.Contains(head, secretOutput) {
			t.Errorf("the messages have %s", messages)
		}
	}
}

// listed returns the events of a list.
func listed(t *testing.T, path string) []string {
	t.Helper()
	var lines []string
	for _, e := range get[historyapi.EventPage](t, path).Events {
		lines = append(lines, string(e))
	}
	return lines
}

// readUntilEnd reads the events of a thread up to the terminal event of a request.
func readUntilEnd(t *testing.T, response *http.Response, requestID string) (lines []string) {
	t.Helper()
	for reader := sse.NewReader(response.Body); ; {
		got, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(got.Data))
		e, err := event.Decode(got.Data)
		if err != nil {
			t.Fatal(err)
		}
		if e.RequestID == requestID && e.Body.Name().IsTerminal() {
			_ = response.Body.Close()
			return lines
		}
	}
}

// checkNoOutput checks that events have no output of a tool.
func checkNoOutput(t *testing.T, where string, lines []string) {
	t.Helper()
	if len(lines) == 0 {
		t.Errorf("%s has no events", where)
	}
	for _, line := range lines {
		e, err := event.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if saysOutput(t, e, line) {
			t.Errorf("%s has %s", where, line)
		}
	}
}

// saysOutput reports whether an event has output of a tool, directly or in an event of a called agent.
func saysOutput(t *testing.T, e event.Event, line string) bool {
	t.Helper()
	switch b := e.Body.(type) {
	case event.ToolOutput:
		return true
	case event.ToolResult:
		return b.Stage == event.StageDelta || strings.Contains(line, secretOutput)
	case event.Subagent:
		inner, err := event.Decode(b.Inner)
		if err != nil {
			t.Fatal(err)
		}
		return saysOutput(t, inner, string(b.Inner))
	case event.Done:
		return slices.ContainsFunc(b.Content, func(c event.Content) bool {
			return c.Type == event.ContentToolResult && strings.Contains(c.Summary, secretOutput)
		})
	default:
		return false
	}
}

func TestToolOutputIsSentIfAClientAsksAndTheAgentAllowsIt(t *testing.T) {
	t.Parallel()
	output := func(lines []string) (all string) {
		for _, line := range lines {
			if e, err := event.Decode([]byte(line)); err == nil && saysOutput(t, e, line) {
				all += line + "\n"
			}
		}
		return all
	}
	with := "?include=tool_output"
	// Deltas are not stored: what a tool prints before its runner has subscribed is lost. The delay is long enough for that.
	for agent, script := range map[string]string{"open": `/tool echo {"text":"SECRET-1 SECRET-2","delay":"1s"}`, "coder": "read"} {
		tr := readStream(t, call(t.Context(), t, http.MethodPost, "/v1/agents/"+agent+"/stream"+with, prompt(script)), -1)
		stream := readStream(t, call(t.Context(), t, http.MethodGet, "/v1/requests/"+tr.RequestID+"/stream"+with, ""), -1)
		if !slices.Equal(tr.Lines, stream.Lines) {
			t.Errorf("%s: got %s again, want %s", agent, stream.Lines, tr.Lines)
		}
		thread := "/v1/threads/" + tr.ThreadID
		for where, lines := range map[string][]string{
			"the stream": tr.Lines,
			"the thread": readUntilEnd(t, call(t.Context(), t, http.MethodGet, thread+"/stream"+with+"&from=start", ""), tr.RequestID),
			"the list":   listed(t, thread+"/events"+with+"&limit=1000"),
		} {
			got := output(lines)
			if !strings.Contains(got, `"event":"tool_output"`) || !strings.Contains(got, `"stage":"delta"`) || !strings.Contains(got, "SECRET-2") {
				t.Errorf("%s: %s has the output %s", agent, where, got)
			}
		}
		only := listed(t, thread+"/events"+with+"&type=tool_output")
		if len(only) != 1 || !strings.Contains(only[0], "SECRET-1 SECRET-2") {
			t.Errorf("%s: got %s by type, want the one output", agent, only)
		}
	}
	refused := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream"+with, prompt("/say hi"))
	if e := wantFault(t, refused, http.StatusBadRequest, apierr.InvalidMessageFormat); !strings.Contains(e.Message, "toolOutput: allow") {
		t.Errorf("got %q, want what allows it", e.Message)
	}
}

func TestAThreadShowsTheToolOutputOfTheAgentsThatAllowIt(t *testing.T) {
	t.Parallel()
	first := post(t, "demo", prompt(`/tool echo {"text":"SECRET closed"}`))
	last := post(t, "open", say(first.ThreadID, `/tool echo {"text":"SECRET shown"}`))
	thread := "/v1/threads/" + first.ThreadID
	follow := call(t.Context(), t, http.MethodGet, thread+"/stream?from=start&include=extended,tool_output", "")
	for where, lines := range map[string][]string{
		"the stream": readUntilEnd(t, follow, last.RequestID),
		"the list":   listed(t, thread+"/events?include=tool_output&limit=1000"),
	} {
		shown := 0
		for _, line := range lines {
			e, err := event.Decode([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			if !saysOutput(t, e, line) {
				continue
			}
			if shown++; e.RequestID != last.RequestID {
				t.Errorf("%s has %s of an agent that does not allow it", where, line)
			}
		}
		if shown == 0 {
			t.Errorf("%s has no output of the agent that allows it", where)
		}
	}
}
