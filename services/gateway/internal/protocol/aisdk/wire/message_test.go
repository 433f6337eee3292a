package wire_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
	"github.com/go-json-experiment/json"
)

// frame returns the log of a request as one frame.
func frame(t *testing.T, requestID string, bodies ...event.Body) event.Frame {
	t.Helper()
	f := event.Frame{Incarnation: "k", Epoch: 1}
	for n, body := range bodies {
		line, err := event.Encode(event.Event{ID: event.NewCursor("k", uint64(n)), RequestID: requestID, Time: time.Unix(0, 0), Body: body})
		if err != nil {
			t.Fatal(err)
		}
		f.Names, f.Lines = append(f.Names, body.Name()), append(append(f.Lines, line...), '\n')
	}
	return f
}

// read returns the chunks that a codec writes for frames, and whether [DONE] is the last line.
func read(t *testing.T, c wire.Codec, frames ...event.Frame) (chunks []wire.Chunk, done bool) {
	t.Helper()
	return readWith(t, c, codec.Options{}, frames...)
}

func readWith(t *testing.T, c wire.Codec, o codec.Options, frames ...event.Frame) (chunks []wire.Chunk, done bool) {
	t.Helper()
	enc, err := c.Encoder(o)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, f := range frames {
		if out, err = enc.Append(out, f); err != nil {
			t.Fatal(err)
		}
	}
	blocks, rest, err := sse.Parse(out)
	if err != nil || len(rest) > 0 {
		t.Fatalf("got the rest %q, %v", rest, err)
	}
	for _, b := range blocks {
		if done = string(b.Data) == "[DONE]"; done {
			continue
		}
		var one wire.Chunk
		if err := json.Unmarshal(b.Data, &one, json.RejectUnknownMembers(true)); err != nil || bytes.Contains(b.Data, []byte(":null")) {
			t.Fatalf("got %s, %v", b.Data, err)
		}
		chunks = append(chunks, one)
	}
	return chunks, done
}

// short is a chunk in one line.
func short(c wire.Chunk) string {
	words := []string{c.Type, c.ID, c.ToolCallID, c.ToolName, c.Delta, c.InputTextDelta, string(c.Input), string(c.Output), c.ErrorText, c.FinishReason, c.Reason}
	if c.ProviderExecuted != nil && !*c.ProviderExecuted {
		words = append(words, "client")
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// block returns a stage of a block.
func block(blockID string, stage event.Stage) event.Block {
	return event.Block{MessageID: "m", BlockID: blockID, Stage: stage}
}

func discarded(blockID string) event.Block {
	b := block(blockID, event.StageStop)
	b.Discarded = true
	return b
}

func text(blockID, whole string) []event.Body {
	return []event.Body{
		event.Text{Block: block(blockID, event.StageStart)}, event.Text{Block: block(blockID, event.StageDelta), Delta: whole},
		event.Text{Block: block(blockID, event.StageStop), Text: whole},
	}
}

func called(blockID, callID string) event.Body {
	return event.ToolCall{Block: block(blockID, event.StageStop), ToolCallID: callID, Tool: "n", Args: []byte(`{"a":1}`)}
}

func returned(blockID, callID string, status event.ToolStatus) event.Body {
	return event.ToolResult{Block: block(blockID, event.StageStop), ToolCallID: callID, Tool: "n", Status: status, Summary: "s"}
}

const (
	done     = event.FinishStop
	required = event.FinishActionRequired
)

func log(parts ...any) []event.Body {
	all := []event.Body{event.Input{ThreadID: "t", AgentID: "demo"}}
	for _, p := range parts {
		switch p := p.(type) {
		case []event.Body:
			all = append(all, p...)
		case event.Body:
			all = append(all, p)
		case event.FinishReason:
			all = append(all, event.Done{FinishReason: p})
		}
	}
	return all
}

func TestMessage(t *testing.T) {
	t.Parallel()
	usage := event.UsageSoFar{Turns: 1}
	open, began := event.Text{Block: block("b1", event.StageStart)}, event.Text{Block: block("b1", event.StageDelta), Delta: "y"}
	tests := []struct {
		name string
		log  []event.Body
		want string // without the start and metadata
	}{
		{"a text without deltas, as in history", log(event.Text{Block: block("b0", event.StageStop), Text: "x"}, done),
			"start-step|text-start m-b0|text-delta m-b0 x|text-end m-b0|finish-step|finish stop"},
		{"a turn and its results are a step", log(called("b0", "c0"), usage, returned("b1", "c0", event.ToolSuccess), text("b2", "x"), usage, done),
			`start-step|tool-input-available c0 n {"a":1}|tool-output-available c0 {"status":"success","summary":"s"}|finish-step|` +
				"start-step|text-start m-b2|text-delta m-b2 x|text-end m-b2|finish-step|finish stop"},
		{"an open block that is discarded", log(text("b0", "x"), open, began, event.Text{Block: discarded("b1")}, text("b2", "z"), done),
			"start-step|text-start m-b0|text-delta m-b0 x|text-end m-b0|text-start m-b1|text-delta m-b1 y|" +
				"reset-step|text-start m-b0|text-delta m-b0 x|text-end m-b0|text-start m-b2|text-delta m-b2 z|text-end m-b2|finish-step|finish stop"},
		{"a finished block that is discarded", log(text("b0", "x"), event.Text{Block: discarded("b0")}, event.Text{Block: discarded("b0")}, done),
			"start-step|text-start m-b0|text-delta m-b0 x|text-end m-b0|reset-step|finish-step|finish stop"},
		{"an open block that another one's reset removes is written by its stop",
			log(open, began, called("b0", "c0"), event.ToolCall{Block: discarded("b0"), ToolCallID: "c0"}, began, event.Text{Block: block("b1", event.StageStop), Text: "yy"}, done),
			`start-step|text-start m-b1|text-delta m-b1 y|tool-input-available c0 n {"a":1}|reset-step|` +
				"text-start m-b1|text-delta m-b1 yy|text-end m-b1|finish-step|finish stop"},
		{"a block of an earlier step is not discarded", log(text("b0", "x"), usage, text("b1", "y"), event.Text{Block: discarded("b0")}, done),
			"start-step|text-start m-b0|text-delta m-b0 x|text-end m-b0|finish-step|" +
				"start-step|text-start m-b1|text-delta m-b1 y|text-end m-b1|finish-step|finish stop"},
		{"an abort ends what is open", log(open, began, event.Aborted{Reason: "r"}),
			"start-step|text-start m-b1|text-delta m-b1 y|text-end m-b1|finish-step|abort r"},
		{"an abort while a tool runs", log(called("b0", "c0"), usage, returned("b1", "c0", event.ToolAborted), event.Aborted{}),
			`start-step|tool-input-available c0 n {"a":1}|tool-output-error c0 s|finish-step|abort`},
		{"an error without a message", log(event.Error{Code: "agent_error"}), "error agent_error"},
		{"a client is asked to run its tool when the action is announced", log(called("b0", "c0"), usage,
			event.Continuation{ActionID: "a0", Kind: event.ContinueTool, Payload: event.ContinuationAction{ToolCallID: "c0", Tool: "n", Args: []byte(`{"a":1}`)}}, required),
			`start-step|tool-input-available c0 n {"a":1}|tool-input-available c0 n {"a":1} client|finish-step|finish tool-calls`},
		{"what a called agent asks is in a step of its own", log(called("b0", "c0"), usage,
			event.Continuation{ActionID: "a0", Kind: event.ContinueApproval, Payload: event.ContinuationAction{ToolCallID: "c0", Tool: "w", Agent: &event.AskingAgent{AgentID: "x"}}},
			event.Continuation{ActionID: "a1", Kind: event.ContinueInput, Payload: event.ContinuationAction{ToolCallID: "c0", Tool: "ask_user", Agent: &event.AskingAgent{AgentID: "x"}}}, required),
			`start-step|tool-input-available c0 n {"a":1}|finish-step|start-step|tool-input-available a0 w {}|tool-approval-request a0|` +
				`tool-input-available a1 ask_user {}|tool-input-available a1 ask_user {} client|finish-step|finish tool-calls`},
		{"a denial without an approval is an error", log(called("b0", "c0"), usage, returned("b1", "c0", event.ToolDenied), text("b2", "x"), done),
			`start-step|tool-input-available c0 n {"a":1}|tool-output-error c0 s|finish-step|start-step|text-start m-b2|text-delta m-b2 x|text-end m-b2|finish-step|finish stop`},
		{"the result of a call of another message", log(returned("b0", "c9", event.ToolSuccess), text("b1", "x"), done),
			`tool-input-available c9 n {}|tool-output-available c9 {"status":"success","summary":"s"}|start-step|text-start m-b1|text-delta m-b1 x|text-end m-b1|finish-step|finish stop`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			chunks, ended := read(t, wire.Codec{}, frame(t, "req_1", tt.log...))
			if chunks[0].Type != wire.Start || chunks[0].MessageID != "req_1" || !ended {
				t.Errorf("got the start %+v and the end %t", chunks[0], ended)
			}
			if got := shown(chunks); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// shown joins chunks without the start and metadata.
func shown(chunks []wire.Chunk) string {
	var all []string
	for _, c := range chunks {
		if c.Type != wire.Start && c.Type != wire.MessageMetadata {
			all = append(all, short(c))
		}
	}
	return strings.Join(all, "|")
}

// The requests of a message: the first asks for an approval and a client tool, the second has the answers.
func continued(t *testing.T) (first, second event.Frame) {
	t.Helper()
	own := id.Derive(id.Action, "c1")
	first = frame(t, "req_1", log(called("b0", "c0"), called("b1", "c1"), event.UsageSoFar{},
		event.Continuation{ActionID: "a0", Kind: event.ContinueApproval, Payload: event.ContinuationAction{ToolCallID: "c0", Tool: "n"}},
		event.Continuation{ActionID: own, Kind: event.ContinueTool, Payload: event.ContinuationAction{ToolCallID: "c1", Tool: "n"}}, required)...)
	answers := event.Input{ThreadID: "t", ActionResults: []event.ActionResult{
		{ActionID: "a0", Status: event.ActionDenied, Error: "no"}, {ActionID: own, Status: event.ActionSuccess, Result: []byte(`{"file":"x"}`)},
	}}
	second = frame(t, "req_2", append([]event.Body{answers}, log(returned("b0", "c0", event.ToolDenied), returned("b1", "c1", event.ToolSuccess), text("b2", "x"), done)[1:]...)...)
	return first, second
}

func TestMessageOfTwoRequests(t *testing.T) {
	t.Parallel()
	first, second := continued(t)
	aborted := frame(t, "req_2", log(event.Aborted{})...)
	end := "start-step|text-start m-b2|text-delta m-b2 x|text-end m-b2|finish-step|finish stop"
	tests := []struct {
		name  string
		codec wire.Codec
		logs  []event.Frame
		id    string
		want  string
	}{
		{"a reader of both", wire.Codec{Last: "req_2"}, []event.Frame{first, second}, "req_1",
			`start-step|tool-input-available c0 n {"a":1}|tool-input-available c1 n {"a":1}|tool-approval-request c0|finish-step|` +
				`tool-approval-response no|tool-output-denied c0|tool-output-available c1 {"file":"x"}|` + end},
		{"the client that has the first, and answered", wire.Codec{Continued: wire.Continued{ID: "mine", Calls: []wire.KnownCall{
			{ID: "c0", ApprovalID: "a0"}, {ID: "c1", Answered: true},
		}}}, []event.Frame{second}, "mine", `tool-approval-response no|tool-output-denied c0|` + end},
		{"an empty step follows outputs of the client that no model has read", wire.Codec{Continued: wire.Continued{ID: "mine", Calls: []wire.KnownCall{
			{ID: "c1", Answered: true},
		}}}, []event.Frame{aborted}, "mine", "start-step|finish-step|abort"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			chunks, ended := read(t, tt.codec, tt.logs...)
			if chunks[0].MessageID != tt.id || !ended {
				t.Errorf("got the id %s and the end %t, want %s", chunks[0].MessageID, ended, tt.id)
			}
			if got := shown(chunks); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestToolOutput(t *testing.T) {
	t.Parallel()
	bodies := log(called("b0", "c0"), event.ToolResult{Block: block("b1", event.StageDelta), ToolCallID: "c0", Delta: "p"},
		event.ToolOutput{ToolCallID: "c0", Status: event.ToolSuccess, Content: "whole"}, returned("b1", "c0", event.ToolSuccess), done)
	for allowed, want := range map[bool]string{
		false: `start-step|tool-input-available c0 n {"a":1}|tool-output-available c0 {"status":"success","summary":"s"}|finish-step|finish stop`,
		true: `start-step|tool-input-available c0 n {"a":1}|data-tool_output|` +
			`tool-output-available c0 {"status":"success","summary":"s","content":"whole"}|finish-step|finish stop`,
	} {
		chunks, _ := readWith(t, wire.Codec{}, codec.Options{ToolOutput: func() bool { return allowed }}, frame(t, "req_1", bodies...))
		if got := shown(chunks); got != want {
			t.Errorf("allowed %t: got\n%s, want\n%s", allowed, got, want)
		}
	}
}

// TestRulesOfTheClient checks a log with every event: each chunk refers to a part that is open, or to a call of the message.
func TestRulesOfTheClient(t *testing.T) {
	t.Parallel()
	chunks, _ := read(t, wire.Codec{}, protocoltest.Log(t)...)
	open, calls := map[string]bool{}, map[string]bool{}
	for i, c := range chunks {
		kind, stage, _ := strings.Cut(c.Type, "-")
		switch {
		case c.Type == wire.ResetStep:
			open = map[string]bool{}
		case kind != "text" && kind != "reasoning":
		case stage == "start":
			open[c.ID] = true
		case !open[c.ID]:
			t.Errorf("chunk %d %s: the part is not open", i, short(c))
		case stage == "end":
			delete(open, c.ID)
		}
		switch c.Type {
		case wire.ToolInputStart, wire.ToolInputAvailable:
			calls[c.ToolCallID] = true
		case wire.ToolInputDelta, wire.ToolOutputAvailable, wire.ToolOutputError, wire.ToolOutputDenied, wire.ToolApprovalRequest:
			if !calls[c.ToolCallID] {
				t.Errorf("chunk %d %s: the message has no such call", i, short(c))
			}
		}
	}
}
