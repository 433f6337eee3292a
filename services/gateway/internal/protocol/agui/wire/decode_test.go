package wire_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
	"github.com/go-json-experiment/json"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	act := id.New(id.Action)
	resume := func(interrupt, rest string) string {
		return `"resume":[{"interruptId":"` + interrupt + `:` + act + `",` + rest + `}]`
	}
	results := func(rest string) string {
		return `{"Request":{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + act + `",` + rest + `}]}},` +
			`"Conversation":[],"System":"","Metadata":{"agui":{"runId":"r","resumed":["` + act + `"]}}}`
	}
	request := func(conversation string) string {
		return `{"Request":{"messages":[],"threadId":"t"},"Conversation":[` + conversation + `],"System":"","Metadata":{"agui":{"runId":"r"}}}`
	}
	tests := []struct{ what, members, want string }{
		{"a text", `"messages":[{"id":"m","role":"user","content":"hi"}]`, request(`{"id":"m","role":"user","content":"hi"}`)},
		{"members that are not known, and null", `"messages":[{"id":"m","role":"user","content":"hi","x":1}],"state":null,"tools":null,"y":[]`,
			request(`{"id":"m","role":"user","content":"hi"}`)},
		{"messages for the user alone", `"messages":[{"role":"activity","content":{}},{"role":"reasoning","content":"hm"},` +
			`{"role":"assistant","subagentRunId":"s","content":"x"},{"role":"user","content":"c"}]`, request(`{"role":"user","content":"c"}`)},
		{"parts", `"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}},` +
			`{"type":"document","source":{"type":"data","value":"aGk=","mimeType":"text/plain"}}]}]`,
			request(`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","url":"https://example.com/a.png"},` +
				`{"type":"file","data":"aGk=","mediaType":"text/plain"}]}`)},
		{"calls of one turn, each with its result", `"messages":[{"role":"user","content":"a"},{"id":"m1","role":"assistant","content":"b"},` +
			`{"id":"c1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"n","arguments":"{\"a\":1}"}}]},` +
			`{"id":"r1","role":"tool","toolCallId":"c1","content":"1"},` +
			`{"id":"c2","role":"assistant","toolCalls":[{"id":"c2","type":"function","function":{"name":"n","arguments":"{\"a\""}}]},` +
			`{"id":"r2","role":"tool","toolCallId":"c2","content":"","error":"no"}]`,
			request(`{"role":"user","content":"a"},{"id":"m1","role":"assistant","content":"b","toolCalls":[{"id":"c1","name":"n","args":{"a":1}},` +
				`{"id":"c2","name":"n"}]},{"id":"r1","role":"tool","content":"1","toolCallId":"c1"},` +
				`{"id":"r2","role":"tool","content":"no","toolCallId":"c2","status":"error"}`)},
		{"tools, context, state and properties", `"tools":[{"name":"n","description":"d","parameters":{"type":"object"}},{"name":"o","description":""}],` +
			`"context":[{"description":"page","value":"home"}],"state":{"a":1},"forwardedProps":{}`,
			`{"Request":{"messages":[],"threadId":"t","context":{"state":{"a":1}},"tools":[{"name":"n","description":"d","schema":{"type":"object"}},{"name":"o"}]},` +
				`"Conversation":[],"System":"The application gives this context:\n- page: home","Metadata":{"agui":{"runId":"r"}}}`},
		{"an approval", resume("approval", `"status":"resolved","payload":{"approved":true}`), results(`"status":"success"`)},
		{"a bare approval", resume("approval", `"status":"resolved","payload":true`), results(`"status":"success"`)},
		{"a denial", resume("approval", `"status":"resolved","payload":{"approved":false,"reason":"no"}`), results(`"status":"denied","error":"no"`)},
		{"an answer", resume("input", `"status":"resolved","payload":{"answer":"3"}`), results(`"status":"success","result":"3"`)},
		{"an answer without a schema", resume("input", `"status":"resolved","payload":"3"`), results(`"status":"success","result":"3"`)},
		{"the result of a tool of an agent below", resume("tool", `"status":"resolved","payload":{"a":1}`), results(`"status":"success","result":{"a":1}`)},
		{"cancelled", resume("input", `"status":"cancelled"`), results(`"status":"denied","error":"cancelled"`)},
		{"cancelled with a new message", resume("input", `"status":"cancelled"`) + `,"messages":[{"id":"m","role":"user","content":"hi"}]`,
			request(`{"id":"m","role":"user","content":"hi"}`)},
	}
	for _, test := range tests {
		in, err := wire.DecodeInput([]byte(`{"threadId":"t","runId":"r",` + test.members + `}`))
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		got, err := in.Request()
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		text, err := json.Marshal(got, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.what, text, test.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	user := `"messages":[{"id":"m","role":"user","content":"hi"}]`
	resume := func(entry string) string { return `{"threadId":"t","resume":[` + entry + `]}` }
	protocoltest.Refuses(t, wire.Codec{}, [][2]string{
		{`{` + user + `}`, "threadId"},
		{`{"threadId":"a.b",` + user + `}`, "threadId"},
		{`{"threadId":1,` + user + `}`, "threadId has the wrong type"},
		{`{"threadId":"t","threadId":"t",` + user + `}`, "threadId appears twice"},
		{`{"threadId":"t","runId":"` + strings.Repeat("r", 129) + `",` + user + `}`, "runId"},
		{`{"threadId":"t","messages":[{"role":"root","content":"hi"}]}`, "messages[0].role"},
		{`{"threadId":"t","messages":[{"role":"user","content":1}]}`, "messages[0].content"},
		{`{"threadId":"t","messages":[{"role":"user","content":[{"type":"smell"}]}]}`, "messages[0].content[0].type"},
		{`{"threadId":"t","messages":[{"role":"user","content":[{"type":"image"}]}]}`, "source is missing"},
		{`{"threadId":"t","messages":[{"role":"user","content":[{"type":"image","source":{"type":"data","value":"%"}}]}]}`, "base64"},
		{`{"threadId":"t","messages":[` + strings.Repeat(`{},`, 3000) + `{}]}`, "messages has more than 2000 entries"},
		{`{"threadId":"t","state":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `,` + user + `}`, "levels"},
		{resume(`{"interruptId":"act_1","status":"resolved","payload":{"approved":true}}`), "resume[0].interruptId"},
		{resume(`{"interruptId":"approval:a.b","status":"resolved","payload":true}`), "resume[0].interruptId"},
		{resume(`{"interruptId":"approval:a","status":"done"}`), "resume[0].status"},
		{resume(`{"interruptId":"approval:a","status":"resolved"}`), "approved"},
		{resume(`{"interruptId":"approval:a","status":"resolved","payload":null}`), "approved"},
		{resume(`{"interruptId":"approval:a","status":"resolved","payload":"yes"}`), "approved"},
		{resume(`{"interruptId":"approval:a","status":"resolved","payload":{"accepted":false}}`), "approved"},
		{resume(`{"interruptId":"approval:a","status":"resolved","payload":{"approved":"true"}}`), "approved"},
		{resume(`{"interruptId":"input:a","status":"resolved"}`), "payload is missing"},
		{resume(`{"interruptId":"input:a","status":"cancelled"},{"interruptId":"input:a","status":"cancelled"}`), "repeats"},
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"hi"}],"tools":[],"context":[]}`))
	f.Add([]byte(`{"threadId":"t","messages":[{"role":"assistant","toolCalls":[{"id":"c","function":{"name":"n","arguments":"{}"}}]},{"role":"tool","toolCallId":"c","content":[{"type":"text","text":"x"}]}]}`))
	f.Add([]byte(`{"threadId":"t","resume":[{"interruptId":"approval:a","status":"resolved","payload":{"approved":true}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := wire.DecodeInput(body)
		var r wire.Request
		if err == nil {
			r, err = in.Request()
		}
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v, want invalid_message_format", err)
			}
			return
		}
		if !id.Valid(r.Request.ThreadID) {
			t.Fatalf("got %+v", r)
		}
		for _, a := range r.Request.Context.ActionResults {
			if !id.Valid(a.ActionID) {
				t.Fatalf("got action %q", a.ActionID)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
