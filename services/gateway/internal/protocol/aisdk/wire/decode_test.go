package wire_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk/wire"
	"github.com/go-json-experiment/json"
)

// asked is the text of a request, for comparisons.
func asked(t *testing.T, r wire.Request) string {
	t.Helper()
	text, err := json.Marshal(r, json.Deterministic(true), json.OmitZeroStructFields(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	question  = `{"id":"u1","role":"user","parts":[{"type":"text","text":"hi"}]}`
	stored    = `{"id":"u1","role":"user","content":"hi"}`
	continues = `"Metadata":{"aisdk":{"messageId":"a1"}}`
)

func TestDecode(t *testing.T) {
	t.Parallel()
	answer := func(parts string) string {
		return `"messages":[` + question + `,{"id":"a1","role":"assistant","parts":[` + parts + `]}]`
	}
	tests := []struct{ name, members, want string }{
		{"a text", `"messages":[` + question + `]`, `{"Request":{"threadId":"c"},"Conversation":[` + stored + `]}`},
		{"the last message alone", `"message":` + question, `{"Request":{"threadId":"c"},"Conversation":[` + stored + `]}`},
		{"regenerate", `"trigger":"regenerate-message","messages":[` + question + `]`,
			`{"Request":{"threadId":"c"},"Conversation":[` + stored + `],"Repeat":true}`},
		{"instructions, a model and members of the application", `"system":"be brief","model":"m","page":3,"messages":[` + question + `]`,
			`{"Request":{"threadId":"c","context":{"model":"m","body":{"page":3}}},"Conversation":[` + stored + `],"System":"be brief"}`},
		{"tools in their order of names", `"tools":{"b":{"parameters":{"type":"object"}},"a":{"description":"d"}},"messages":[` + question + `]`,
			`{"Request":{"threadId":"c","tools":[{"name":"a","description":"d"},{"name":"b","schema":{"type":"object"}}]},"Conversation":[` + stored + `]}`},
		{"files, and parts for the user alone", `"messages":[{"id":"u1","role":"user","parts":[{"type":"data-x","data":{}},{"type":"text","text":"hi"},` +
			`{"type":"file","mediaType":"image/*","url":"https://example.com/a.png"},{"type":"file","mediaType":"text/plain","filename":"b","url":"data:text/plain;base64,aGk="}]}]`,
			`{"Request":{"threadId":"c"},"Conversation":[{"id":"u1","role":"user","content":[{"type":"text","text":"hi"},` +
				`{"type":"image","url":"https://example.com/a.png"},{"type":"file","url":"data:text/plain;base64,aGk=","mediaType":"text/plain","name":"b"}]}]}`},
		{"the steps of an answer", answer(`{"type":"step-start"},{"type":"reasoning","text":"hm"},{"type":"text","text":"let me see"},`+
			`{"type":"tool-n","toolCallId":"c1","state":"output-available","input":{"a":1},"output":{"b":2},"providerExecuted":true},`+
			`{"type":"dynamic-tool","toolName":"o","toolCallId":"c2","state":"output-error","input":3,"errorText":"no","providerExecuted":true},`+
			`{"type":"tool-n","toolCallId":"c3","state":"input-streaming"},{"type":"step-start"},{"type":"step-start"},{"type":"text","text":"done"}`) +
			`,"messageId":"u1"`,
			`{"Request":{"threadId":"c"},"Conversation":[` + stored + `,{"id":"a1","role":"assistant","content":"let me see",` +
				`"toolCalls":[{"id":"c1","name":"n","args":{"a":1}},{"id":"c2","name":"o"}]},{"role":"tool","content":"{\"b\":2}","toolCallId":"c1"},` +
				`{"role":"tool","content":"no","toolCallId":"c2","status":"error"},{"role":"assistant","content":"done"}],` + continues + `,` +
				`"Continued":{"ID":"a1","Calls":[{"ID":"c1","Answered":true},{"ID":"c2","Dynamic":true,"Answered":true},{"ID":"c3"}]}}`},
		{"an approval and a denial", answer(`{"type":"dynamic-tool","toolName":"n","toolCallId":"c1","state":"approval-responded","approval":{"id":"x","approved":true}},` +
			`{"type":"dynamic-tool","toolName":"n","toolCallId":"c2","state":"approval-responded","approval":{"id":"y","approved":false,"reason":"no"}}`),
			`{"Request":{"threadId":"c"},"Conversation":[` + stored + `,{"id":"a1","role":"assistant","toolCalls":[{"id":"c1","name":"n"},{"id":"c2","name":"n"}]}],` +
				continues + `,"Continued":{"ID":"a1","Calls":[{"ID":"c1","Dynamic":true,"ApprovalID":"x"},{"ID":"c2","Dynamic":true,"ApprovalID":"y"}]},` +
				`"Approvals":[{"actionId":"x","status":"success"},{"actionId":"y","status":"denied","error":"no"}]}`},
		{"outputs of the client", answer(`{"type":"tool-n","toolCallId":"c1","state":"output-available","output":{"b":2}},{"type":"tool-n","toolCallId":"c2","state":"output-available"},`+
			`{"type":"tool-n","toolCallId":"c3","state":"output-available","output":1,"preliminary":true},{"type":"tool-n","toolCallId":"c4","state":"output-error","errorText":"no"}`) +
			`,"trigger":"submit-message"`,
			`{"Request":{"threadId":"c"},"Conversation":[` + stored + `,{"id":"a1","role":"assistant","toolCalls":[{"id":"c1","name":"n"},{"id":"c2","name":"n"},` +
				`{"id":"c3","name":"n"},{"id":"c4","name":"n"}]},{"role":"tool","content":"{\"b\":2}","toolCallId":"c1"},{"role":"tool","content":"","toolCallId":"c2"},` +
				`{"role":"tool","content":"no","toolCallId":"c4","status":"error"}],` + continues + `,"Continued":{"ID":"a1","Calls":[{"ID":"c1","Answered":true},` +
				`{"ID":"c2","Answered":true},{"ID":"c3"},{"ID":"c4","Answered":true}]},"Outputs":[{"CallID":"c1","Result":{"status":"success","result":{"b":2}}},` +
				`{"CallID":"c2","Result":{"status":"success","result":null}},{"CallID":"c4","Result":{"status":"error","error":"no"}}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in, err := wire.DecodeInput([]byte(`{"id":"c",` + tt.members + `}`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := in.Request()
			if err != nil {
				t.Fatal(err)
			}
			if got := asked(t, r); got != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	one := `"messages":[` + question + `]`
	tests := []struct{ name, body, want string }{
		{"no chat", `{` + one + `}`, `id "" must match`},
		{"a chat that is a path", `{"id":"a/b",` + one + `}`, `id "a/b" must match`},
		{"no messages", `{"id":"c"}`, `messages is empty`},
		{"an unknown trigger", `{"id":"c","trigger":"resume",` + one + `}`, `trigger is "resume"`},
		{"an unknown role", `{"id":"c","messages":[{"role":"tool","parts":[]}]}`, `messages[0].role is "tool"`},
		{"a member of the wrong type", `{"id":"c","messages":[{"role":"user","parts":[{"type":"text","text":1}]}]}`, `messages[0].parts[0].text has the wrong type`},
		{"tools as a list", `{"id":"c","tools":[],` + one + `}`, `tools has the wrong type`},
		{"too many tools", `{"id":"c","tools":{` + strings.TrimSuffix(many(129), ",") + `},` + one + `}`, `tools has more than 128 entries`},
		{"too many parts", `{"id":"c","messages":[{"role":"user","parts":[` + strings.Repeat(`{"type":"x"},`, 2000) + `{"type":"x"}]}]}`, `messages[0].parts has more than 2000 entries`},
		{"a file without a place", `{"id":"c","messages":[{"role":"user","parts":[{"type":"file"}]}]}`, `messages[0].parts[0].url is missing`},
		{"a member that appears twice", `{"id":"c","id":"d",` + one + `}`, `id appears twice`},
		{"an approval of another server", `{"id":"c","messages":[{"id":"a","role":"assistant","parts":[{"type":"tool-n","state":"approval-responded","approval":{"id":"a.b"}}]}]}`,
			`the approval "a.b" in message "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.Codec{}.Decode([]byte(tt.body))
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// many returns members of as many tools.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"t` + strings.Repeat("x", i) + `":{},`)
	}
	return b.String()
}

// FuzzDecode requires that a body is refused with an error of the protocol, or becomes a request that can be encoded.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"c","messages":[` + question + `],"trigger":"submit-message"}`))
	f.Add([]byte(`{"id":"c","messages":[{"id":"a","role":"assistant","parts":[{"type":"dynamic-tool","toolName":"n","toolCallId":"c1",` +
		`"state":"approval-responded","input":{},"approval":{"id":"x","approved":true}}]}],"tools":{"n":{}},"messageId":"a"}`))
	f.Add([]byte(`{"id":"c","message":{"role":"user","parts":[{"type":"file","mediaType":"image","url":"data:,"}]},"x":[null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := wire.DecodeInput(body)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v, want invalid_message_format", err)
			}
			return
		}
		r, err := in.Request()
		if err != nil && apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Fatalf("got %v, want invalid_message_format", err)
		}
		if err == nil {
			_ = asked(t, r)
		}
	})
}
