package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/openai"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/agentbus/agentbus/pkg/tarko/tarkotest"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

// TestRecordedModelTrafficGivesTheRecordedEvents sends what Tarko's model sent through our backend, our loop and our
// projection: the types come in the order of Tarko's own events, one for one. The recording stops before the end of the
// run, which has an agent_run_end.
func TestRecordedModelTrafficGivesTheRecordedEvents(t *testing.T) {
	t.Parallel()
	r := tarkotest.Open(t, tarkotest.Weather)
	var traffic [][]byte
	for _, turn := range r.Turns {
		traffic = append(traffic, stream(turn.Chunks...))
	}
	told := replay(t, r, traffic, "How's the weather today?")
	want := append(typesOf(r.Events), string(tarko.TypeAgentRunEnd))
	if got := typesOf(told); !slices.Equal(got, want) {
		t.Fatalf("got\n%v\nwant\n%v", got, want)
	}
	for i, e := range r.Events {
		if got, want := gist(t, told[i]), gist(t, e); got != want {
			t.Errorf("event %d, %s: got %s, want %s", i, e.Type, got, want)
		}
	}
}

// TestRecordedPlanGivesTheRecordedEvents does the same with an older Tarko, which differs from ours in what its model
// traffic has and in what it made of it:
//
//   - Its model writes a call as JSON into its text; here the same content and the same call are in their own places.
//   - Its planner asks the model for the plan apart from the recorded traffic. Ours is a tool, so each of the recorded
//     updates is a call of that tool here, whose own events are left out of the comparison.
//   - It reports plans by system events too, which its documentation calls an abuse, and does not stream.
//   - It said that the run starts before what the user said; later ones say it behind, and so do we.
//   - It finishes the plan within the tool that writes the report, whose name our loop keeps for a tool of its own.
func TestRecordedPlanGivesTheRecordedEvents(t *testing.T) {
	t.Parallel()
	r := tarkotest.Open(t, tarkotest.Planner)
	told := replay(t, r, plannerTraffic(t, r), "research")
	own := func(e eventstream.Event) bool {
		text := string(e.Data)
		return tarko.Type(e.Type).IsStreaming() || e.Type == string(tarko.TypeAgentRunEnd) || strings.Contains(text, `"name":"plan"`)
	}
	got := typesOf(slices.DeleteFunc(told, own))
	want := slices.DeleteFunc(typesOf(r.Events), func(kind string) bool { return kind == string(tarko.TypeSystem) })
	want[0], want[1] = want[1], want[0]
	finish := slices.Index(want, string(tarko.TypePlanFinish))
	want[finish], want[finish+1] = want[finish+1], want[finish]
	if !slices.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// writeReport is the name that the recorded final_answer has here.
const writeReport = "write_report"

// plannerTraffic is what a model would send whose turns and plans are the recorded ones.
func plannerTraffic(t *testing.T, r tarkotest.Recording) [][]byte {
	t.Helper()
	var traffic [][]byte
	turn := 0
	for _, e := range r.Events {
		switch e.Type {
		case string(tarko.TypePlanUpdate), string(tarko.TypePlanFinish):
			var args struct {
				Steps   []tarko.PlanStep `json:"steps,omitempty"`
				Summary string           `json:"summary,omitempty"`
			}
			if err := e.Decode(&args); err != nil {
				t.Fatal(err)
			}
			args.Summary = head(args.Summary, 200)
			traffic = append(traffic, speak(t, "", "plan", encoded(t, args)))
		case string(tarko.TypeAssistantMessage):
			if turn == len(r.Turns) {
				traffic = append(traffic, speak(t, "finished", "", nil)) // Tarko's own words
				continue
			}
			var said struct {
				Content  string         `json:"content"`
				ToolCall tarkotest.Call `json:"toolCall"`
			}
			if err := jsonv2.Unmarshal([]byte(r.Turns[turn].Text()), &said); err != nil {
				t.Fatal(err)
			}
			name := strings.Replace(said.ToolCall.Name, "final_answer", writeReport, 1)
			traffic = append(traffic, speak(t, said.Content, name, said.ToolCall.Args))
			turn++
		}
	}
	return traffic
}

// replay runs a request whose model sends the traffic, one turn after the other, and whose tools give what is recorded.
func replay(t *testing.T, r tarkotest.Recording, traffic [][]byte, prompt string) []eventstream.Event {
	t.Helper()
	th := newThread(t)
	th.agent.Turns, th.agent.Tools, th.tools = len(traffic), []tool.Spec{Planning()}, tools{}
	results := map[string][]json.RawMessage{}
	for _, turn := range r.Turns {
		for _, c := range turn.Calls {
			name := strings.Replace(c.Name, "final_answer", writeReport, 1)
			results[name] = append(results[name], c.Result)
			th.tools[name] = func(_ context.Context, call backend.Call, _ func(Progress)) (Output, error) {
				next := results[call.Name][0]
				results[call.Name] = results[call.Name][1:]
				return Output{Status: event.ToolSuccess, Content: string(next), Summary: "done"}, nil
			}
		}
	}
	for name := range th.tools {
		th.agent.Tools = append(th.agent.Tools, tool.Spec{Name: name})
	}
	th.backend = openai.New(openai.Options{BaseURL: "http://model.test/v1", Client: &http.Client{Transport: &provider{traffic: traffic}}})
	log := th.say(prompt)
	last[event.Done](t, log)
	p := tarko.NewProjector(tarko.Flat)
	var told []eventstream.Event
	for _, e := range log {
		events, err := p.Project(e)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, events...)
	}
	return told
}

// provider answers each request with the next of its streams.
type provider struct{ traffic [][]byte }

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(p.traffic) == 0 {
		return nil, fmt.Errorf("the recording has no further turn")
	}
	next := p.traffic[0]
	p.traffic = p.traffic[1:]
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(next)), ContentLength: -1,
	}, nil
}

// stream is chunks as the provider sends them, with the usage at the end, which our backend asks for and Tarko's did not.
func stream(chunks ...[]byte) []byte {
	var b bytes.Buffer
	for _, c := range chunks {
		fmt.Fprintf(&b, "data: %s\n\n", c)
	}
	b.WriteString(`data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}` +
		"\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

// speak is the stream of a turn that says content and calls a tool, if it has a name.
func speak(t *testing.T, content, name string, args json.RawMessage) []byte {
	t.Helper()
	delta, reason := map[string]any{"content": content}, "stop"
	if name != "" {
		function := map[string]string{"name": name, "arguments": string(args)}
		delta["tool_calls"], reason = []any{map[string]any{"index": 0, "id": "call", "type": "function", "function": function}}, "tool_calls"
	}
	return stream(encoded(t, map[string]any{
		"object": "chat.completion.chunk", "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}},
	}))
}

func encoded(t *testing.T, value any) json.RawMessage {
	t.Helper()
	text, err := jsonv2.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func typesOf(events []eventstream.Event) []string {
	types := make([]string, 0, len(events))
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

// gist is what an event says, without the ids and times that every run has its own of.
func gist(t *testing.T, e eventstream.Event) string {
	t.Helper()
	var says struct {
		Content   json.RawMessage `json:"content"`
		Name      string          `json:"name"`
		ToolName  string          `json:"toolName"`
		Arguments json.RawMessage `json:"arguments"`
		Complete  bool            `json:"isComplete"`
		Reason    string          `json:"finishReason"`
	}
	if err := e.Decode(&says); err != nil {
		t.Fatal(err)
	}
	return string(encoded(t, says))
}
