package wire_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui/wire"
	"github.com/go-json-experiment/json"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	act, c1 := id.New(id.Action), id.Derive(id.Action, "c1")
	tests := []struct{ what, members, want string }{
		{"a text", `"messages":[{"id":"m","role":"user","content":"hi"}]`,
			`{"messages":[{"role":"user","content":"hi"}],"threadId":"t"}`},
		{"members that are not known, and null", `"messages":[{"id":"m","role":"user","content":"hi","x":1}],"state":null,"y":[]`,
			`{"messages":[{"role":"user","content":"hi"}],"threadId":"t"}`},
		{"the last of a conversation",
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`,
			`{"messages":[{"role":"user","content":"c"}],"threadId":"t"}`},
		{"parts", `"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}}]}]`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","url":"https://example.com/a.png"}]}],"threadId":"t"}`},
		{"the result of a client tool",
			`"messages":[{"role":"assistant","toolCalls":[]},{"id":"x","role":"tool","toolCallId":"c1","content":"{}"}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + c1 + `","status":"success","result":"{}"}]}}`},
		{"a client tool that failed",
			`"messages":[{"role":"assistant"},{"id":"x","role":"tool","toolCallId":"c1","content":"","error":"no"}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + c1 + `","status":"error","error":"no"}]}}`},
		{"an approval", `"resume":[{"interruptId":"approval:` + act + `","status":"resolved","payload":{"approved":true}}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + act + `","status":"success"}]}}`},
		{"a bare approval", `"resume":[{"interruptId":"approval:` + act + `","status":"resolved","payload":true}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + act + `","status":"success"}]}}`},
		{"a denial", `"resume":[{"interruptId":"approval:` + act + `","status":"resolved","payload":{"approved":false,"reason":"no"}}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + act + `","status":"denied","error":"no"}]}}`},
		{"an answer", `"resume":[{"interruptId":"input:` + act + `","status":"resolved","payload":{"answer":"3"}}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + act + `","status":"success","result":"3"}]}}`},
		{"an answer without a schema", `"resume":[{"interruptId":"input:` + act + `","status":"resolved","payload":"3"}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + act + `","status":"success","result":"3"}]}}`},
		{"cancelled", `"resume":[{"interruptId":"input:` + act + `","status":"cancelled"}]`,
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"` + act + `","status":"denied","error":"cancelled"}]}}`},
	}
	for _, test := range tests {
		got, err := wire.Codec{}.Decode([]byte(`{"threadId":"t","runId":"r",` + test.members + `}`))
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		if text := jsonOf(t, got); text != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.what, text, test.want)
		}
	}
}

func jsonOf(t *testing.T, r event.AgentRequest) string {
	t.Helper()
	text, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	user := `"messages":[{"id":"m","role":"user","content":"hi"}]`
	resume := func(entry string) string { return `{"threadId":"t","resume":[` + entry + `]}` }
	tests := []struct{ body, says string }{
		{`{` + user + `}`, "threadId"},
		{`{"threadId":"a.b",` + user + `}`, "threadId"},
		{`{"threadId":1,` + user + `}`, "threadId has the wrong type"},
		{`{"threadId":"t","threadId":"t",` + user + `}`, "threadId appears twice"},
		{`{"threadId":"t","runId":"` + strings.Repeat("r", 129) + `",` + user + `}`, "runId"},
		{`{"threadId":"t","messages":[]}`, "nothing new"},
		{`{"threadId":"t","messages":[{"role":"assistant","content":"I"}]}`, "nothing new"},
		{`{"threadId":"t","messages":[{"role":"root","content":"hi"}]}`, "messages[0].role"},
		{`{"threadId":"t","messages":[{"role":"user","content":""}]}`, "messages[0].content is empty"},
		{`{"threadId":"t","messages":[{"role":"user","content":1}]}`, "messages[0].content"},
		{`{"threadId":"t","messages":[{"role":"user","content":[]}]}`, "messages[0].content is empty"},
		{`{"threadId":"t","messages":[{"role":"user","content":[{"type":"smell"}]}]}`, "messages[0].content[0].type"},
		{`{"threadId":"t","messages":[{"role":"user","content":[{"type":"image"}]}]}`, "source is missing"},
		{`{"threadId":"t","messages":[{"role":"user","content":[{"type":"image","source":{"type":"data","value":"%"}}]}]}`, "base64"},
		{`{"threadId":"t","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","value":"file:///etc/passwd"}}]}]}`, "url"},
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
	}
	for _, test := range tests {
		_, err := wire.Codec{}.Decode([]byte(test.body))
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.120s: got %v, want invalid_message_format that says %q", test.body, err, test.says)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"hi"}],"tools":[],"context":[]}`))
	f.Add([]byte(`{"threadId":"t","messages":[{"role":"assistant","toolCalls":[{"id":"c","function":{"name":"n","arguments":"{}"}}]},{"role":"tool","toolCallId":"c","content":[{"type":"text","text":"x"}]}]}`))
	f.Add([]byte(`{"threadId":"t","resume":[{"interruptId":"approval:a","status":"resolved","payload":{"approved":true}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := wire.Codec{}.Decode(body)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v, want invalid_message_format", err)
			}
			return
		}
		if !id.Valid(r.ThreadID) || len(r.Messages)+len(r.Context.ActionResults) == 0 {
			t.Fatalf("got %+v", r)
		}
		for _, a := range r.Context.ActionResults {
			if !id.Valid(a.ActionID) {
				t.Fatalf("got action %q", a.ActionID)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
