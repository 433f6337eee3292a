package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/chat"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
	jsonv2 "github.com/go-json-experiment/json"
)

const (
	user   = `{"role":"user","content":"hi"}`
	called = `{"role":"assistant","content":null,"tool_calls":[{"id":"tool:act_1:thr_1","type":"function","function":{"name":"pick","arguments":"{\"a\":1}"}}]}`
)

func TestDecode(t *testing.T) {
	t.Parallel()
	request := func(request, conversation string) string {
		return `{"AgentID":"demo","Request":{"messages":[]` + request + `},"Conversation":` + conversation + `,"System":""}`
	}
	tests := []struct{ name, members, want string }{
		{"a text", `"messages":[` + user + `]`, request("", `[{"role":"user","content":"hi"}]`)},
		{"an unknown member, and null", `"messages":[{"role":"user","content":"hi","name":"x"}],"seed":1,"tools":null,"stop":null`,
			request("", `[{"role":"user","content":"hi"}]`)},
		{"a thread of the client", `"messages":[` + user + `],"metadata":{"thread_id":"t1"},"user":"u"`,
			request(`,"threadId":"t1","context":{"metadata":{"thread_id":"t1"},"user":"u"}`, `[{"role":"user","content":"hi"}]`)},
		{"parts", `"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},` +
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"file","file":{"file_data":"data:text/plain;base64,aGk=","filename":"a.txt"}}]}]`,
			request("", `[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","url":"https://example.com/a.png"},`+
				`{"type":"image","data":"aGk=","mediaType":"image/png"},{"type":"file","data":"aGk=","mediaType":"text/plain","name":"a.txt"}]}]`)},
		{"options", `"messages":[` + user + `],"temperature":0,"top_p":0.5,"stop":"x","max_completion_tokens":9,"tool_choice":"required",` +
			`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}`,
			request(`,"options":{"temperature":0,"topP":0.5,"stop":["x"],"maxTokens":9,"toolChoice":{"mode":"required"},`+
				`"responseFormat":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}`, `[{"role":"user","content":"hi"}]`)},
		{"tools, without those that answer actions", `"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"pick","description":"d",` +
			`"parameters":{"type":"object"}}},{"type":"function","function":{"name":"approve_tool_call"}}],"tool_choice":{"type":"function","function":{"name":"pick"}}`,
			request(`,"tools":[{"name":"pick","description":"d","schema":{"type":"object"}}],"options":{"toolChoice":{"mode":"tool","name":"pick"}}`,
				`[{"role":"user","content":"hi"}]`)},
		{"a conversation with calls of another server", `"messages":[` + user + `,{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function",` +
			`"function":{"name":"pick","arguments":""}}]},{"role":"tool","tool_call_id":"call_1","content":"a"}]`,
			request("", `[{"role":"user","content":"hi"},{"role":"assistant","toolCalls":[{"id":"call_1","name":"pick"}]},`+
				`{"role":"tool","content":"a","toolCallId":"call_1"}]`)},
		{"the result of a call", `"messages":[` + user + `,` + called + `,{"role":"tool","tool_call_id":"tool:act_1:thr_1","content":"{\"b\":2}"}]`,
			request(`,"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_1","status":"success","result":"{\"b\":2}"}]}`, `null`)},
		{"a denial, an answer and a message", `"messages":[` + user + `,` + called + `,{"role":"tool","tool_call_id":"approval:act_1:thr_1","content":"{\"approved\":false,\"reason\":\"no\"}"},` +
			`{"role":"tool","tool_call_id":"input:act_2:thr_1","content":"blue"},{"role":"user","content":"go"}]`,
			`{"AgentID":"demo","Request":{"messages":[{"role":"user","content":"go"}],"threadId":"thr_1","context":{"actionResults":[` +
				`{"actionId":"act_1","status":"denied","error":"no"},{"actionId":"act_2","status":"success","result":"blue"}]}},"Conversation":null,"System":""}`},
		{"an answer after a question alone", `"messages":[` + user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"input:act_1:thr_1",` +
			`"type":"function","function":{"name":"ask_user","arguments":"{}"}}]},{"role":"tool","tool_call_id":"input:act_1:thr_1","content":"3"}]`,
			request(`,"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_1","status":"success","result":"3"}]}`, `null`)},
		{"an approval in the history is left out", `"messages":[` + user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"approval:act_1:thr_1",` +
			`"type":"function","function":{"name":"approve_tool_call","arguments":"{}"}}]},{"role":"tool","tool_call_id":"approval:act_1:thr_1","content":"true"},` +
			`{"role":"assistant","content":"done"},` + user + `]`,
			request("", `[{"role":"user","content":"hi"},{"role":"assistant","content":"done"},{"role":"user","content":"hi"}]`)},
	}
	for _, test := range tests {
		in, err := chat.DecodeInput([]byte(`{"model":"demo",` + test.members + `}`))
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
		if plain := strings.Replace(string(text), `"messages":null`, `"messages":[]`, 1); plain != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, plain, test.want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	protocoltest.Refuses(t, chat.Codec{}, [][2]string{
		{`{"messages":[` + user + `]}`, "model is missing"},
		{`{"model":"demo"}`, "messages is empty"},
		{`{"model":"demo","messages":[` + user + `],"n":2}`, "n is 2"},
		{`{"model":"demo","messages":[` + user + `],"logprobs":true}`, "logprobs"},
		{`{"model":"demo","messages":[` + user + `],"modalities":["text","audio"]}`, "modalities"},
		{`{"model":"demo","messages":[` + user + `],"functions":[]}`, "use tools"},
		{`{"model":"demo","messages":[` + user + `],"stop":1}`, "stop must be"},
		{`{"model":"demo","messages":[` + user + `],"temperature":"1"}`, "temperature has the wrong type"},
		{`{"model":"demo","messages":[` + user + `],"tools":[{"type":"web_search"}]}`, "tools[0].type"},
		{`{"model":"demo","messages":[` + user + `],"tool_choice":{}}`, "tool_choice must be"},
		{`{"model":"demo","messages":[` + user + `],"response_format":{"type":"xml"}}`, "response_format.type"},
		{`{"model":"demo","messages":[` + user + `],"response_format":{"type":"json_schema"}}`, "json_schema is missing"},
		{`{"model":"demo","messages":[{"role":"user","content":1}]}`, "messages[0].content"},
		{`{"model":"demo","messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`, "messages[0].content[0].type"},
		{`{"model":"demo","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, "image_url is missing"},
		{`{"model":"demo","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}]}`, "data URL"},
		{`{"model":"demo","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`, "file_id are not supported"},
		{`{"model":"demo","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"%"}}]}]}`, "base64"},
		{`{"model":"demo","messages":[` + strings.Repeat(user+",", 2000) + user + `]}`, "messages has more than 2000 entries"},
		{`{"model":"demo","messages":[` + called + `,{"role":"tool","tool_call_id":"approval:a:t","content":"maybe"}]}`, `{"approved":true}`},
		{`{"model":"demo","messages":[` + called + `,{"role":"tool","tool_call_id":"tool:a:t1","content":"x"},{"role":"tool","tool_call_id":"tool:b:t2","content":"x"}]}`, "several threads"},
		{`{"model":"demo","messages":[` + called + `,{"role":"tool","tool_call_id":"tool:a.b:t1","content":"x"}]}`, "tool_call_id"},
		{`{"model":"demo","messages":[` + called + `,{"role":"tool","tool_call_id":"tool:a:t1","content":"x"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}]}`, "text/plain"},
		{`{"model":"demo","messages":[` + user + `],"metadata":{"thread_id":""}}`, "metadata.thread_id"},
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"model":"demo","messages":[` + user + `,` + called + `,{"role":"tool","tool_call_id":"approval:a:t","content":"true"}],"stop":["x"]}`))
	f.Add([]byte(`{"model":"a/b","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"aGk="}}]}],"tools":[{"type":"function","function":{"name":"n"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := chat.DecodeInput(body)
		var r chat.Request
		if err == nil {
			r, err = in.Request()
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
