package responses_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/responses"
	jsonv2 "github.com/go-json-experiment/json"
)

// frames returns a log of events.
func frames(t *testing.T, bodies ...event.Body) []event.Frame {
	t.Helper()
	var log []event.Frame
	for n, body := range bodies {
		line, err := event.Encode(event.Event{ID: event.NewCursor("k3f9", uint64(n)), RequestID: "req_1", Time: time.Unix(1700000000, 0), Body: body})
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, event.Frame{Incarnation: "k3f9", Epoch: 1, First: uint64(n), Names: []event.Name{body.Name()}, Lines: append(line, '\n')})
	}
	return log
}

// encode returns the stream of a log.
func encode(t *testing.T, c responses.Codec, log []event.Frame) []byte {
	t.Helper()
	enc, err := c.Encoder(codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, f := range log {
		if out, err = enc.Append(out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// decode returns the events of a stream.
func decode(t *testing.T, text []byte) []responses.Event {
	t.Helper()
	parsed, rest, err := sse.Parse(text)
	if err != nil || len(rest) > 0 {
		t.Fatalf("the stream ends with %q (%v)", rest, err)
	}
	var events []responses.Event
	for _, one := range parsed {
		var e responses.Event
		if err := jsonv2.Unmarshal(one.Data, &e); err != nil {
			t.Fatalf("%s: %v", one.Data, err)
		}
		if e.Type != one.Name {
			t.Errorf("the event %s has the name %q", one.Data, one.Name)
		}
		events = append(events, e)
	}
	return events
}

func block(blockID string, stage event.Stage) event.Block {
	return event.Block{BlockID: blockID, Stage: stage}
}

var input = event.Input{ThreadID: "thr_1", AgentID: "demo", Messages: []event.InputMessage{event.UserText("hi")}}

func ended(reason event.FinishReason) event.Done {
	return event.Done{ThreadID: "thr_1", FinishReason: reason}
}

// summary writes the items of a response in one line each.
func summary(r responses.Response) string {
	var b strings.Builder
	for _, item := range r.Output {
		fmt.Fprintf(&b, "%s %s %s", item.Type, item.Status, item.Name)
		for _, p := range slices.Concat(item.Content, item.Summary) {
			b.WriteString(" " + *p.Text)
		}
		if item.Arguments != nil {
			b.WriteString(" " + *item.Arguments)
		}
		if item.Output != nil {
			b.WriteString(" = " + *item.Output)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestOutput(t *testing.T) {
	t.Parallel()
	client := func(stage event.Stage) event.ToolCall {
		return event.ToolCall{Block: block("b1", stage), ToolCallID: "call_1", Tool: "pick", Gate: event.ContinueTool}
	}
	waits := func(kind event.ContinuationKind, actionID string) event.Continuation {
		return event.Continuation{ActionID: actionID, Kind: kind, Payload: event.ContinuationAction{ToolCallID: "call_1", Tool: "pick", Args: json.RawMessage(`{"a":1}`)}}
	}
	server := func(stage event.Stage, delta, args string) event.ToolCall {
		c := event.ToolCall{Block: block("b1", stage), ToolCallID: "call_1", Tool: "echo", Delta: delta}
		if args != "" {
			c.Args = json.RawMessage(args)
		}
		return c
	}
	result := func(status event.ToolStatus) event.ToolResult {
		return event.ToolResult{Block: block("b2", event.StageStop), ToolCallID: "call_1", Tool: "echo", Status: status, Summary: "done"}
	}
	act1 := id.Derive(id.Action, "call_1")
	resumed := func(a event.ActionResult) event.Input {
		a.ActionID = act1
		return event.Input{ThreadID: "thr_1", AgentID: "demo", ActionResults: []event.ActionResult{a}}
	}
	discarded := block("b1", event.StageStop)
	discarded.Discarded = true
	tests := []struct {
		name   string
		log    []event.Body
		status string
		want   string
	}{
		{"a text that was discarded is not in the output", []event.Body{input,
			event.Text{Block: block("b0", event.StageDelta), Delta: "on"}, event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStop, Discarded: true}},
			event.Text{Block: block("b1", event.StageStop), Text: "one"}, ended(event.FinishStop),
		}, "completed", "message completed  one\n"},
		{"a call of the agent ends with its result", []event.Body{input, server(event.StageStart, "", ""), server(event.StageDelta, `{"a":1}`, ""),
			server(event.StageStop, "", `{"a":1}`), result(event.ToolSuccess), ended(event.FinishStop),
		}, "completed", "mcp_call completed echo {\"a\":1} = done\n"},
		{"a call that failed", []event.Body{input, server(event.StageStop, "", `{}`), result(event.ToolFailed), ended(event.FinishStop)},
			"completed", "mcp_call failed echo {}\n"},
		{"a call that is made again after a crash", []event.Body{input, server(event.StageStart, "", ""), server(event.StageDelta, `{"a`, ""),
			event.ToolCall{Block: discarded, ToolCallID: "call_1", Tool: "echo"}, server(event.StageStart, "", ""), server(event.StageDelta, `{"b":2}`, ""),
			server(event.StageStop, "", `{"b":2}`), result(event.ToolSuccess), ended(event.FinishStop),
		}, "completed", "mcp_call completed echo {\"b\":2} = done\n"},
		{"a call that is not made again", []event.Body{input, server(event.StageStart, "", ""), event.ToolCall{Block: discarded, ToolCallID: "call_1", Tool: "echo"},
			event.Text{Block: block("b2", event.StageStop), Text: "no"}, ended(event.FinishStop),
		}, "completed", "message completed  no\n"},
		{"a call of a client tool is shown once", []event.Body{input, client(event.StageStart),
			event.ToolCall{Block: block("b1", event.StageStop), ToolCallID: "call_1", Tool: "pick", Gate: event.ContinueTool, Args: json.RawMessage(`{"a":1}`)},
			waits(event.ContinueTool, act1), ended(event.FinishActionRequired),
		}, "completed", "function_call completed pick {\"a\":1}\n"},
		{"a call of a client tool by a runner that writes the gate with the stop alone", []event.Body{input,
			event.ToolCall{Block: block("b1", event.StageStart), ToolCallID: "call_1", Tool: "pick"},
			event.ToolCall{Block: block("b1", event.StageStop), ToolCallID: "call_1", Tool: "pick", Gate: event.ContinueTool, Args: json.RawMessage(`{"a":1}`)},
			waits(event.ContinueTool, act1), ended(event.FinishActionRequired),
		}, "completed", "function_call completed pick {\"a\":1}\n"},
		{"a call of a client tool with arguments that are not valid", []event.Body{input, client(event.StageStart),
			event.ToolCall{Block: block("b1", event.StageStop), ToolCallID: "call_1", Tool: "pick", Args: json.RawMessage(`{}`)}, result(event.ToolFailed), ended(event.FinishStop),
		}, "completed", ""},
		{"an approval", []event.Body{input,
			event.ToolCall{Block: block("b1", event.StageStart), ToolCallID: "call_1", Tool: "pick", Gate: event.ContinueApproval},
			event.ToolCall{Block: block("b1", event.StageStop), ToolCallID: "call_1", Tool: "pick", Gate: event.ContinueApproval, Args: json.RawMessage(`{"a":1}`)},
			waits(event.ContinueApproval, act1), ended(event.FinishActionRequired),
		}, "completed", "mcp_approval_request  pick {\"a\":1}\n"},
		{"a question", []event.Body{input, event.Continuation{ActionID: act1, Kind: event.ContinueInput, Payload: event.ContinuationAction{Question: "Which?"}},
			ended(event.FinishActionRequired)}, "completed", "function_call completed ask_user {\"question\":\"Which?\"}\n"},
		{"a call that was approved", []event.Body{resumed(event.ActionResult{Status: event.ActionSuccess}),
			event.ToolResult{Block: block("b2", event.StageStart), ToolCallID: "call_1", Tool: "echo"}, result(event.ToolSuccess), ended(event.FinishStop),
		}, "completed", "mcp_call completed echo {} = done\n"},
		{"a call that was denied", []event.Body{resumed(event.ActionResult{Status: event.ActionDenied}),
			event.ToolResult{Block: block("b2", event.StageStart), ToolCallID: "call_1", Tool: "echo"}, result(event.ToolDenied), ended(event.FinishStop),
		}, "completed", ""},
		{"the result of the client is not output", []event.Body{resumed(event.ActionResult{Status: event.ActionSuccess, Result: json.RawMessage(`1`)}),
			event.ToolResult{Block: block("b2", event.StageStart), ToolCallID: "call_1", Tool: "echo"}, result(event.ToolSuccess), ended(event.FinishStop),
		}, "completed", ""},
		{"what is open at an abort is incomplete", []event.Body{input, server(event.StageStop, "", `{}`), event.Thinking{Block: block("b3", event.StageDelta), Delta: "hm"},
			event.Aborted{}}, "cancelled", "mcp_call incomplete echo {}\nreasoning incomplete  hm\n"},
		{"a limit", []event.Body{input, ended(event.FinishLength)}, "incomplete", ""},
		{"a failure", []event.Body{input, event.Error{Code: "agent_error", Message: "no"}}, "failed", ""},
		{"a log that has not ended", []event.Body{input, event.Text{Block: block("b0", event.StageDelta), Delta: "on"}}, "in_progress", "message in_progress  on\n"},
	}
	for _, test := range tests {
		log := responses.NewLog()
		all := frames(t, test.log...)
		for _, f := range all {
			if err := log.Add(f); err != nil {
				t.Fatal(err)
			}
		}
		state := log.Response()
		if got := summary(state); got != test.want || state.Status != test.status {
			t.Errorf("%s: got %s\n%swant %s\n%s", test.name, state.Status, got, test.status, test.want)
		}
		follow(t, test.name, decode(t, encode(t, responses.Codec{}, all)), state)
	}
}

// follow checks the rules that clients rely on: sequence numbers are dense, an item has one start and one end under one index, deltas
// are of items that are open, and the last event has the response.
func follow(t *testing.T, name string, events []responses.Event, state responses.Response) {
	t.Helper()
	open, next, ids := map[int]string{}, 0, map[string]bool{}
	for i, e := range events {
		if e.Sequence != i {
			t.Errorf("%s: event %d has the number %d", name, i, e.Sequence)
		}
		switch {
		case i == 0 && e.Type != "response.created", e.Response != nil && e.Response.ID != state.ID:
			t.Errorf("%s: event %d is %s of %+v", name, i, e.Type, e.Response)
		case e.Type == "response.output_item.added":
			if *e.OutputIndex != next || ids[e.Item.ID] {
				t.Errorf("%s: item %s at %d, want a new one at %d", name, e.Item.ID, *e.OutputIndex, next)
			}
			open[next], ids[e.Item.ID] = e.Item.ID, true
			next++
		case e.OutputIndex != nil && open[*e.OutputIndex] == "":
			t.Errorf("%s: %s of an item that is not open", name, e.Type)
		case e.ItemID != "" && e.ItemID != open[*e.OutputIndex]:
			t.Errorf("%s: %s of %s, want %s", name, e.Type, e.ItemID, open[*e.OutputIndex])
		case e.Type == "response.output_item.done":
			delete(open, *e.OutputIndex)
		}
	}
	last := events[len(events)-1].Response
	if state.Status == "in_progress" {
		return
	}
	if len(open) > 0 || last == nil || summary(*last) != summary(state) || last.Status != state.Status {
		t.Errorf("%s: the stream ends with %+v and %v, want %+v", name, last, open, state)
	}
}

func TestStartingAfterContinuesWithTheSameBytes(t *testing.T) {
	t.Parallel()
	log := frames(t, input, event.Text{Block: block("b0", event.StageDelta), Delta: "a"}, event.Text{Block: block("b0", event.StageDelta), Delta: "b"},
		event.Text{Block: block("b0", event.StageStop), Text: "ab"}, ended(event.FinishStop))
	whole := encode(t, responses.Codec{}, log)
	parts := bytes.SplitAfter(whole, []byte("\n\n"))
	for from := range parts {
		if got, want := encode(t, responses.Codec{From: from}, log), bytes.Join(parts[from:], nil); !bytes.Equal(got, want) {
			t.Errorf("from %d: got\n%s\nwant\n%s", from, got, want)
		}
	}
}

// TestALongStreamEndsWithItsNewestItems writes more than the last event repeats.
func TestALongStreamEndsWithItsNewestItems(t *testing.T) {
	t.Parallel()
	bodies := []event.Body{input}
	for i := range 5 {
		bodies = append(bodies, event.Text{Block: block(fmt.Sprint("b", i), event.StageStop), Text: strings.Repeat(fmt.Sprint(i), 300<<10)})
	}
	log := frames(t, append(bodies, ended(event.FinishStop))...)
	events := decode(t, encode(t, responses.Codec{}, log))
	last := events[len(events)-1].Response
	if len(last.Output) != 3 || last.Output[2].ID != "msg_req_1_4" {
		t.Errorf("got %d items, want the newest 3", len(last.Output))
	}
}

func TestRequestIsDescribed(t *testing.T) {
	t.Parallel()
	in := input
	in.System = "be brief"
	temperature := 0.5
	in.Options = event.RequestOptions{
		Temperature: &temperature, MaxTokens: 9, ToolChoice: &event.ToolChoice{Mode: event.ChooseTool, Name: "pick"},
		ResponseFormat: &event.ResponseFormat{Type: event.FormatSchema, Name: "n", Schema: json.RawMessage(`{"type":"object"}`), Strict: true},
	}
	in.Tools = []event.RequestTool{{Name: "pick", Schema: json.RawMessage(`{"type":"object"}`)}}
	in.Metadata = json.RawMessage(`{"openai":{"created":1600000000,"background":true,"previous":"req_0","conversation":true,"metadata":{"a":"b"}}}`)
	text, err := jsonv2.Marshal(responses.Queued("req_1", time.Unix(1, 0), in))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"id":"resp_req_1"`, `"status":"queued"`, `"background":true`, `"created_at":1600000000`, `"instructions":"be brief"`, `"max_output_tokens":9`,
		`"temperature":0.5`, `"top_p":null`, `"tool_choice":{"type":"function","name":"pick"}`, `"previous_response_id":"resp_req_0"`, `"conversation":{"id":"thr_1"}`,
		`"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}`, `"metadata":{"a":"b"}`,
		`"tools":[{"type":"function","name":"pick","description":"","parameters":{"type":"object"},"strict":false}]`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("got %s, want %s", text, part)
		}
	}
	events := decode(t, encode(t, responses.Codec{}, frames(t, in)))
	var types []string
	for _, e := range events {
		types = append(types, e.Type+" "+e.Response.Status)
	}
	if want := []string{"response.created queued", "response.queued queued", "response.in_progress in_progress"}; !slices.Equal(types, want) {
		t.Errorf("got %v, want %v", types, want)
	}
}

func TestInputItems(t *testing.T) {
	t.Parallel()
	in := event.Input{ThreadID: "thr_1", History: []event.HistoryMessage{
		{Role: event.RoleAssistant, Content: event.InputContent{{Type: "text", Text: "I look."}}, ToolCalls: []event.HistoryCall{{ID: "c1", Name: "pick"}}},
		{Role: event.RoleTool, ToolCallID: "c1", Content: event.InputContent{{Type: "text", Text: "a"}}},
	}, ActionResults: []event.ActionResult{
		{ActionID: "act_1", Status: event.ActionSuccess}, {ActionID: "act_2", Status: event.ActionSuccess, Result: json.RawMessage(`{"b":1}`)},
	}, Messages: []event.InputMessage{{Role: event.RoleUser, Content: event.InputContent{
		{Type: "text", Text: "see"}, {Type: "image", URL: "https://example.com/a.png"}, {Type: "file", Data: []byte("hi"), MediaType: "text/plain", Name: "a.txt"},
		{Type: "image", Ref: &event.ObjectRef{Object: "obj_1"}},
	}}}}
	text, err := jsonv2.Marshal(responses.InputItems("req_1", in))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"id":"in_req_1_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[],"logprobs":[]}]},` +
		`{"id":"in_req_1_1","type":"function_call","status":"completed","call_id":"c1","name":"pick","arguments":"{}"},` +
		`{"id":"in_req_1_2","type":"function_call_output","status":"completed","call_id":"c1","output":"a"},` +
		`{"id":"in_req_1_3","type":"mcp_approval_response","approval_request_id":"approval:act_1:thr_1","approve":true},` +
		`{"id":"in_req_1_4","type":"function_call_output","status":"completed","call_id":"tool:act_2:thr_1","output":"{\"b\":1}"},` +
		`{"id":"in_req_1_5","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"see"},` +
		`{"type":"input_image","detail":"auto","image_url":"https://example.com/a.png"},{"type":"input_file","file_data":"data:text/plain;base64,aGk=","filename":"a.txt"},` +
		`{"type":"input_image","detail":"auto","image_url":"/v1/threads/thr_1/objects/obj_1"}]}]`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
