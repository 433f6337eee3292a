package responses_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/responses"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
	jsonv2 "github.com/go-json-experiment/json"
)

const (
	user   = `{"role":"user","content":"hi"}`
	called = `{"type":"function_call","id":"fc_req_1_0","call_id":"tool:act_1:thr_1","name":"pick","arguments":"{\"a\":1}"}`

	approved = `{"type":"mcp_approval_response","approval_request_id":"approval:act_2:thr_1","approve":true}`
)

func TestDecode(t *testing.T) {
	t.Parallel()
	imported := func(request, conversation string) string {
		return `"Request":{"messages":[]` + request + `},"Conversation":` + conversation
	}
	hi := `[{"role":"user","content":"hi"}]`
	tests := []struct{ name, members, want string }{
		{"a text", `"input":"hi"`, imported("", hi)},
		{"items, unknown members, and null", `"input":[` + user + `],"store":false,"tools":null,"instructions":null,"previous_response_id":null,"conversation":null,"stream":null`,
			imported("", hi)},
		{"instructions and options", `"input":"hi","instructions":"be brief","temperature":0,"top_p":0.5,"max_output_tokens":9,"tool_choice":"required",` +
			`"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"user":"u","metadata":{"a":"b"}`,
			imported(`,"context":{"metadata":{"a":"b"},"user":"u"},"options":{"temperature":0,"topP":0.5,"maxTokens":9,"toolChoice":{"mode":"required"},`+
				`"responseFormat":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}`, hi) +
				`,"Previous":"","System":"be brief","Metadata":{"openai":{"created":1700000000,"metadata":{"a":"b"}}}`},
		{"tools, without those of this server", `"input":"hi","tools":[{"type":"function","name":"pick","description":"d","parameters":{"type":"object"},"strict":true},` +
			`{"type":"function","name":"ask_user","parameters":null,"strict":null},{"type":"mcp","server_label":"agentbus","server_url":"x"}],"tool_choice":{"type":"function","name":"pick"}`,
			imported(`,"tools":[{"name":"pick","description":"d","schema":{"type":"object"}}],"options":{"toolChoice":{"mode":"tool","name":"pick"}}`, hi)},
		{"images and files", `"input":[{"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"https://example.com/a.png"},` +
			`{"type":"input_file","file_data":"data:text/plain;base64,aGk=","filename":"a.txt"}]}]`,
			imported("", `[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","url":"https://example.com/a.png"},`+
				`{"type":"file","data":"aGk=","mediaType":"text/plain","name":"a.txt"}]}]`)},
		{"a conversation with calls", `"input":[` + user + `,{"type":"reasoning","id":"rs_1","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},` +
			`{"type":"function_call","call_id":"c1","name":"pick","arguments":""},{"type":"function_call","call_id":"c2","name":"pick","arguments":"{\"a\":1}"},` +
			`{"type":"function_call_output","call_id":"c1","output":"x"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"y"}]},` +
			`{"type":"mcp_call","id":"mcp_1","name":"echo","arguments":"{}","output":"z","status":"completed"},{"type":"mcp_call","id":"mcp_2","name":"echo","arguments":"{}","status":"incomplete"},` + user + `]`,
			imported("", `[{"role":"user","content":"hi"},{"role":"assistant","content":"I look.","toolCalls":[{"id":"c1","name":"pick"},{"id":"c2","name":"pick","args":{"a":1}}]},`+
				`{"role":"tool","content":"x","toolCallId":"c1"},{"role":"tool","content":"y","toolCallId":"c2"},{"role":"assistant","toolCalls":[{"id":"mcp_1","name":"echo"}]},`+
				`{"role":"tool","content":"z","toolCallId":"mcp_1"},{"role":"user","content":"hi"}]`)},
		{"the result of a call", `"input":[` + user + `,` + called + `,{"type":"function_call_output","call_id":"tool:act_1:thr_1","output":"{\"b\":2}"}]`,
			`"Request":{"messages":[],"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_1","status":"success","result":"{\"b\":2}"}]}},"Conversation":null`},
		{"a denial, an answer, a message and instructions", `"input":[{"role":"developer","content":"be kind"},` + called + `,{"type":"mcp_approval_request","id":"approval:act_2:thr_1","name":"x","arguments":"{}","server_label":"agentbus"},` +
			`{"type":"mcp_approval_response","approval_request_id":"approval:act_2:thr_1","approve":false,"reason":"no"},{"type":"function_call_output","call_id":"input:act_3:thr_1","output":"blue"},` + user + `]`,
			`"Request":{"messages":[{"role":"user","content":"hi"}],"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_2","status":"denied","error":"no"},` +
				`{"actionId":"act_3","status":"success","result":"blue"}]}},"Conversation":null,"Previous":"","System":"be kind"`},
		{"the previous response", `"input":"hi","previous_response_id":"resp_req_1"`,
			`"Request":{"messages":[{"role":"user","content":"hi"}]},"Conversation":null,"Previous":"req_1","System":"","Metadata":{"openai":{"created":1700000000,"previous":"req_1"}}`},
		{"a reference to an item", `"input":[` + user + `,{"type":"item_reference","id":"msg_req_1_0"},` + user + `]`,
			`"Request":{"messages":[{"role":"user","content":"hi"}]},"Conversation":null,"Previous":"req_1"`},
		{"a reference to an approval", `"input":[` + user + `,{"type":"item_reference","id":"approval:act_2:thr_1"},` + approved + `]`,
			`"Request":{"messages":[],"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_2","status":"success"}]}},"Conversation":null,"Previous":""`},
		{"an approval without its request", `"input":[` + user + `,{"role":"assistant","content":"x"},` + user + `,` + approved + `,{"role":"user","content":"go"}]`,
			`"Request":{"messages":[{"role":"user","content":"go"}],"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_2","status":"success"}]}}`},
		{"an approval after the previous response", `"input":[` + user + `,` + approved + `],"previous_response_id":"req_1"`,
			`"Request":{"messages":[{"role":"user","content":"hi"}],"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_2","status":"success"}]}}`},
		{"a conversation of the client", `"input":"hi","conversation":{"id":"t1"}`,
			`"Request":{"messages":[{"role":"user","content":"hi"}],"threadId":"t1"},"Conversation":null,"Previous":"","System":"","Metadata":{"openai":{"created":1700000000,"conversation":true}}`},
		{"approvals in the history are left out", `"input":[` + user + `,{"type":"mcp_approval_request","id":"approval:act_2:thr_1"},{"type":"mcp_approval_response","approval_request_id":"approval:act_2:thr_1","approve":true},` +
			`{"role":"assistant","content":"done"},` + user + `]`,
			imported("", `[{"role":"user","content":"hi"},{"role":"assistant","content":"done"},{"role":"user","content":"hi"}]`)},
	}
	for _, test := range tests {
		in, err := responses.DecodeInput([]byte(`{"model":"demo",` + test.members + `}`))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got, err := in.Request(time.Unix(1700000000, 0))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		text, err := jsonv2.Marshal(got, jsonv2.Deterministic(true), jsonv2.FormatNilSliceAsNull(true))
		if err != nil {
			t.Fatal(err)
		}
		if plain := strings.Replace(string(text), `"messages":null`, `"messages":[]`, 1); !strings.HasPrefix(plain, `{"AgentID":"demo",`+test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, plain, test.want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	protocoltest.Refuses(t, responses.Codec{}, [][2]string{
		{`{"input":"hi"}`, "model is missing"},
		{`{"model":"demo"}`, "input is empty"},
		{`{"model":"demo","input":[]}`, "input is empty"},
		{`{"model":"demo","input":""}`, "content is missing or empty"},
		{`{"model":"demo","input":5}`, "input has the wrong type"},
		{`{"model":"demo","input":[{"role":7}]}`, "input[0].role has the wrong type"},
		{`{"model":"demo","input":"hi","previous_response_id":"resp_1","conversation":"c"}`, "both name a thread"},
		{`{"model":"demo","input":"hi","previous_response_id":""}`, "previous_response_id"},
		{`{"model":"demo","input":"hi","previous_response_id":"a.b"}`, "previous_response_id"},
		{`{"model":"demo","input":"hi","conversation":{}}`, "conversation"},
		{`{"model":"demo","input":"hi","conversation":7}`, "conversation has the wrong type"},
		{`{"model":"demo","input":"hi","max_tool_calls":1}`, "max_tool_calls"},
		{`{"model":"demo","input":"hi","top_logprobs":1}`, "log probabilities"},
		{`{"model":"demo","input":"hi","include":["message.output_text.logprobs"]}`, "log probabilities"},
		{`{"model":"demo","input":"hi","prompt":{"id":"p"}}`, "use instructions"},
		{`{"model":"demo","input":"hi","tools":[{"type":"web_search"}]}`, "tools[0].type"},
		{`{"model":"demo","input":"hi","tools":[{"type":"mcp","server_label":"other"}]}`, "tools[0].type"},
		{`{"model":"demo","input":"hi","tool_choice":{"type":"mcp"}}`, "tool_choice must be"},
		{`{"model":"demo","input":"hi","text":{"format":{"type":"xml"}}}`, "text.format.type"},
		{`{"model":"demo","input":"hi","text":{"format":{"type":"json_schema"}}}`, "text.format.schema is missing"},
		{`{"model":"demo","input":[{"role":"owner","content":"x"}]}`, "role"},
		{`{"model":"demo","input":[{"type":"shell_call"}]}`, "input[0].type"},
		{`{"model":"demo","input":[{"type":"item_reference","id":"msg_1"}]}`, "input[0].id"},
		{`{"model":"demo","input":[{"role":"user","content":[{"type":"input_audio"}]}]}`, "input[0].content[0].type"},
		{`{"model":"demo","input":[` + user + `,{"role":"assistant","content":"x"}]}`, "ends with an item of the assistant"},
		{`{"model":"demo","input":[{"role":"assistant","content":"x"}],"conversation":"c"}`, "nothing new"},
		{`{"model":"demo","input":[{"type":"function_call_output","call_id":"tool:a.b:t","output":"x"}]}`, "input[0].call_id"},
		{`{"model":"demo","input":[{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}]}`, "input[0].approval_request_id"},
		{`{"model":"demo","input":[{"type":"mcp_approval_response","approval_request_id":"approval:a:t"}]}`, "approve"},
		{`{"model":"demo","input":[{"type":"mcp_approval_response","approval_request_id":"tool:a:t","approve":true}]}`, "approval request"},
		{`{"model":"demo","input":[{"type":"function_call_output","call_id":"tool:a:t1","output":"x"},{"type":"function_call_output","call_id":"tool:b:t2","output":"x"}]}`, "another thread"},
		{`{"model":"demo","input":[` + strings.Repeat(user+",", 2000) + user + `]}`, "input has more than 2000 entries"},
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"model":"demo","input":[` + user + `,` + called + `,{"type":"mcp_approval_response","approval_request_id":"approval:a:t","approve":true}]}`))
	f.Add([]byte(`{"model":"a/b","input":[{"role":"user","content":[{"type":"input_file","file_data":"aGk="}]},{"type":"item_reference","id":"msg_r_0"}],"tools":[{"type":"function","name":"n"}]}`))
	f.Add([]byte(`{"model":"demo","input":"hi","conversation":{"id":"c"},"text":{"format":{"type":"json_schema","schema":{}}},"tool_choice":"auto"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := responses.DecodeInput(body)
		var r responses.Request
		if err == nil {
			r, err = in.Request(time.Time{})
		}
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v, want invalid_message_format", err)
			}
			return
		}
		if _, err := json.Marshal([]any{r.Request, r.Conversation}); err != nil {
			t.Fatal(err)
		}
	})
}
