package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	const stored = `,"System":"","Metadata":{"langgraph":{"metadata":{}}}}`
	tests := []struct{ name, members, want string }{
		{"a message with a role", `"input":{"messages":[{"role":"user","content":"hi"}]}`,
			`{"Request":{"messages":[{"role":"user","content":"hi"}]},"Conversation":null` + stored},
		{"a message of LangChain, with an id", `"input":{"messages":[{"type":"human","id":"m1","content":"hi","additional_kwargs":{}}]}`,
			`{"Request":{"messages":[{"id":"m1","role":"user","content":"hi"}]},"Conversation":null` + stored},
		{"one message that is a text", `"input":{"messages":"hi"}`,
			`{"Request":{"messages":[{"role":"user","content":"hi"}]},"Conversation":null` + stored},
		{"instructions", `"input":{"messages":[{"type":"system","content":"be brief"},{"type":"human","content":"hi"}]}`,
			`{"Request":{"messages":[{"role":"user","content":"hi"}]},"Conversation":null,"System":"be brief\n","Metadata":{"langgraph":{"metadata":{}}}}`},
		{"a whole conversation", `"input":{"messages":[{"role":"user","content":"a"},{"type":"ai","content":"","tool_calls":[{"id":"c1","name":"n","args":{"x":1}}]},` +
			`{"type":"tool","tool_call_id":"c1","status":"error","content":"no"}]}`,
			`{"Request":{"messages":null},"Conversation":[{"role":"user","content":"a"},{"role":"assistant","toolCalls":[{"id":"c1","name":"n","args":{"x":1}}]},` +
				`{"role":"tool","content":"no","toolCallId":"c1","status":"error"}]` + stored},
		{"blocks", `"input":{"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},` +
			`{"type":"image","source_type":"base64","mime_type":"image/png","data":"aGk="},{"type":"file","url":"https://example.com/a.pdf","metadata":{"filename":"a.pdf"}}]}]}`,
			`{"Request":{"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","url":"https://example.com/a.png"},` +
				`{"type":"image","url":"data:image/png;base64,aGk="},{"type":"file","url":"https://example.com/a.pdf","name":"a.pdf"}]}]},"Conversation":null` + stored},
		{"context, modes and metadata", `"input":{"messages":"hi","topic":"x"},"config":{"configurable":{"user":"u"}},"context":{"a":1},"stream_mode":["values","debug"],"metadata":{"k":"v"}`,
			`{"Request":{"messages":[{"role":"user","content":"hi"}],"context":{"configurable":{"user":"u"},"input":{"topic":"x"},"runtime":{"a":1}}},"Conversation":null,"System":"",` +
				`"Metadata":{"langgraph":{"streamMode":["values","debug"],"metadata":{"k":"v"}}}}`},
		{"no input", `"command":{"resume":true}`, `{"Request":{"messages":[]},"Conversation":null` + stored},
	}
	for _, test := range tests {
		in, err := wire.DecodeInput([]byte(`{"assistant_id":"demo",` + test.members + `}`))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got, err := in.Request()
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		text, err := jsonv2.Marshal(got, jsonv2.Deterministic(true), jsonv2.FormatNilSliceAsNull(true))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, text, test.want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	const user = `"input":{"messages":"hi"}`
	tests := []struct{ body, want string }{
		{`[]`, "must be a JSON object"},
		{`{` + user + `}`, "assistant_id is missing"},
		{`{"assistant_id":"demo","input":[]}`, "input must be an object"},
		{`{"assistant_id":"demo","input":{"messages":[1]}}`, "input.messages[0] must be a message"},
		{`{"assistant_id":"demo","input":{"messages":[{"type":"robot","content":"x"}]}}`, "human, ai, system or tool"},
		{`{"assistant_id":"demo","input":{"messages":[{"type":"human","content":{}}]}}`, "input.messages[0].content"},
		{`{"assistant_id":"demo","input":{"messages":[{"type":"human","content":[{"type":"video"}]}]}}`, "neither url nor data"},
		{`{"assistant_id":"demo","input":{"messages":[{"type":"human","content":[{"type":"image_url"}]}]}}`, "image_url must be a URL"},
		{`{"assistant_id":"demo","input":{"messages":[{"type":"human","content":[{"type":"poem"}]}]}}`, "content[0].type"},
		{`{"assistant_id":"demo","input":{"messages":[` + strings.Repeat(`"x",`, 2000) + `"x"]}}`, "more than 2000 entries"},
		{`{"assistant_id":"demo",` + user + `,"stream_mode":"nonsense"}`, "stream_mode"},
		{`{"assistant_id":"demo",` + user + `,"stream_mode":7}`, "stream_mode"},
		{`{"assistant_id":"demo",` + user + `,"webhook":"https://example.com"}`, "webhook is not supported"},
		{`{"assistant_id":"demo",` + user + `,"on_disconnect":"explode"}`, "on_disconnect"},
		{`{"assistant_id":"demo",` + user + `,"if_not_exists":"maybe"}`, "if_not_exists"},
		{`{"assistant_id":"demo","command":{"goto":"x"}}`, "command.goto"},
	}
	for _, test := range tests {
		_, err := wire.Codec{}.Decode([]byte(test.body))
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.120s: got %v, want invalid_message_format with %q", test.body, err, test.want)
		}
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	approval := historyapi.Action{ActionID: "act_1", Kind: event.ContinueApproval}
	question := historyapi.Action{ActionID: "act_2", Kind: event.ContinueInput}
	call := historyapi.Action{ActionID: "act_3", Kind: event.ContinueTool, Payload: event.ContinuationAction{ToolCallID: "call_1"}}
	all := []historyapi.Action{approval, question, call}
	tests := []struct {
		name, resume string
		open         []historyapi.Action
		want         string // or a part of the error
	}{
		{"an approval", `{"decisions":[{"type":"approve"}]}`, all[:1], `[{"actionId":"act_1","status":"success"}]`},
		{"a rejection", `{"decisions":[{"type":"reject","message":"no"}]}`, all[:1], `[{"actionId":"act_1","status":"denied","error":"no"}]`},
		{"the approval of an older client", `[{"type":"accept","args":null}]`, all[:1], `[{"actionId":"act_1","status":"success"}]`},
		{"the response of an older client", `[{"type":"response","args":"no"}]`, all[:1], `[{"actionId":"act_1","status":"denied","error":"no"}]`},
		{"false", `false`, all[:1], `[{"actionId":"act_1","status":"denied"}]`},
		{"approved", `{"approved":false,"reason":"no"}`, all[:1], `[{"actionId":"act_1","status":"denied","error":"no"}]`},
		{"an edit", `{"decisions":[{"type":"edit"}]}`, all[:1], "use approve or reject"},
		{"a decision without a type", `{"decisions":[{}]}`, all[:1], "must be"},
		{"two decisions for one call", `{"decisions":[{"type":"approve"},{"type":"approve"}]}`, all[:1], "must be"},
		{"an answer", `"blue"`, all[1:2], `[{"actionId":"act_2","status":"success","result":"blue"}]`},
		{"an answer of an older client", `[{"type":"response","args":"blue"}]`, all[1:2], `[{"actionId":"act_2","status":"success","result":"blue"}]`},
		{"the result of a call", `{"call_1":{"file":"a"}}`, all[2:], `[{"actionId":"act_3","status":"success","result":{"file":"a"}}]`},
		{"the result of a call by the ids of both", `{"act_3":{"call_1":7}}`, all[2:], `[{"actionId":"act_3","status":"success","result":7}]`},
		{"a call that failed", `{"call_1":{"error":"no such tool"}}`, all[2:], `[{"actionId":"act_3","status":"error","error":"no such tool"}]`},
		{"some of several", `{"act_1":true,"act_2":"blue"}`, all,
			`[{"actionId":"act_1","status":"success"},{"actionId":"act_2","status":"success","result":"blue"}]`},
		{"one value for several", `true`, all, "for each interrupt id"},
		{"an unknown id among several", `{"act_1":true,"act_9":1}`, all, "for each interrupt id"},
		{"nothing waits", `true`, nil, "waits for no answer"},
	}
	for _, test := range tests {
		results, err := wire.Results(json.RawMessage(test.resume), test.open)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %s", test.name, err, test.want)
			}
			continue
		}
		if text, err := jsonv2.Marshal(results); err != nil || string(text) != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.name, text, err, test.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"assistant_id":"demo","input":{"messages":[{"type":"human","content":[{"type":"image","data":"aGk="}]}]},"command":{"resume":[{"type":"accept"}]}}`))
	f.Add([]byte(`{"assistant_id":"demo","input":{"messages":["hi",{"role":"assistant","tool_calls":[{"id":"c","name":"n"}]}]},"stream_mode":["values"]}`))
	open := []historyapi.Action{{ActionID: "act_1", Kind: event.ContinueApproval}, {ActionID: "act_2", Kind: event.ContinueTool}}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := wire.DecodeInput(body)
		if err == nil {
			_, err = in.Request()
		}
		if err == nil && in.Resumes() != nil {
			_, err = wire.Results(in.Resumes(), open)
		}
		if err != nil && apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Fatalf("got %v, want invalid_message_format", err)
		}
	})
}
