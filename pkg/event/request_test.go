package event_test

import (
	"bytes"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

func TestInputContentForms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in, out, text string
	}{
		{"a string stays a string", `"hi"`, `"hi"`, "hi"},
		{"an empty string stays one", `""`, `""`, ""},
		{"a lone text becomes a string", `[{"type":"text","text":"hi"}]`, `"hi"`, "hi"},
		{"two texts stay parts", `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, "a\nb"},
		{"an image keeps its URL", `[{"type":"image","url":"https://example.com/a.png"}]`, `[{"type":"image","url":"https://example.com/a.png"}]`, ""},
		{"a file keeps its bytes", `[{"type":"file","data":"aGk=","mediaType":"text/plain","name":"a"}]`, `[{"type":"file","data":"aGk=","mediaType":"text/plain","name":"a"}]`, ""},
		{"a text with a name stays a part", `[{"type":"text","text":"hi","name":"a.txt"}]`, `[{"type":"text","text":"hi","name":"a.txt"}]`, "hi"},
		{"an unknown member stays", `[{"type":"text","text":"hi","cache":true}]`, `[{"type":"text","text":"hi","cache":true}]`, "hi"},
		{"an unknown part stays", `[{"type":"audio","seconds":3}]`, `[{"type":"audio","seconds":3}]`, ""},
		{"an empty list of parts has none", `[]`, `[]`, ""},
	}
	for _, tt := range tests {
		var content event.InputContent
		if err := json.Unmarshal([]byte(tt.in), &content); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := content.Text(); got != tt.text {
			t.Errorf("%s: the text is %q, want %q", tt.name, got, tt.text)
		}
		if got, err := json.Marshal(content); err != nil || string(got) != tt.out {
			t.Errorf("%s: got %s, %v; want %s", tt.name, got, err, tt.out)
		}
	}
}

func TestInputContentRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`null`, `7`, `true`, `{"type":"text","text":"hi"}`, `["hi"]`, `[null,7]`, `[{"type":7}]`, `[{"type":"file","data":"%"}]`} {
		var content event.InputContent
		if err := json.Unmarshal([]byte(in), &content); err == nil {
			t.Errorf("%s is read as %+v", in, content)
		}
	}
}

func TestInputContentOverwrites(t *testing.T) {
	t.Parallel()
	content := event.InputContent{{Type: "image", URL: "https://example.com"}, {Type: "text", Text: "old"}}
	if err := json.Unmarshal([]byte(`[{"type":"text","text":"new"}]`), &content); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(content); err != nil || string(got) != `"new"` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestRequestForms(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"messages alone":           `{"messages":[{"role":"user","content":"hi"}]}`,
		"no messages":              `{"messages":[]}`,
		"a thread":                 `{"messages":[{"role":"user","content":"hi"}],"threadId":"thr_1"}`,
		"action results":           `{"messages":[],"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_1","status":"success","result":{"a":[1]}}]}}`,
		"a denial":                 `{"messages":[],"threadId":"thr_1","context":{"actionResults":[{"actionId":"act_1","status":"denied","error":"no"}]}}`,
		"a model":                  `{"messages":[],"context":{"model":"small"}}`,
		"what is passed through":   `{"messages":[],"context":{"locale":"en","user":{"name":"Ada"}}}`,
		"a message with an id":     `{"messages":[{"id":"m1","role":"user","content":"hi"}]}`,
		"tools":                    `{"messages":[],"tools":[{"name":"a","description":"b","schema":{"type":"object"}},{"name":"c"}]}`,
		"an empty list of tools":   `{"messages":[],"tools":[]}`,
		"options":                  `{"messages":[],"options":{"temperature":0,"topP":0.5,"stop":["x"],"maxTokens":7,"toolChoice":{"mode":"tool","name":"a"},"responseFormat":{"type":"json_schema","name":"r","schema":{"type":"object"},"strict":true}}}`,
		"a result that is nothing": `{"messages":[],"context":{"actionResults":[{"actionId":"act_1","status":"success","result":""}]}}`,
	}
	for name, in := range tests {
		var request event.AgentRequest
		if err := json.Unmarshal([]byte(in), &request, json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal(request)
		if err != nil || !bytes.Equal(got, []byte(in)) {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, in)
		}
	}
}

func TestUserText(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(event.UserText("hi"))
	if want := `{"role":"user","content":"hi"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"}],"threadId":"t","context":{"actionResults":[{"actionId":"a","status":"success"}]}}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"image","data":"aGk="}]}],"context":{"x":null}}`))
	f.Add([]byte(`{"messages":[],"tools":[{"name":"a","schema":{}}],"options":{"stop":[],"toolChoice":{"mode":"auto"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var request event.AgentRequest
		if json.Unmarshal(body, &request) != nil {
			return
		}
		once, err := json.Marshal(request)
		if err != nil {
			t.Fatalf("%q is read and cannot be written: %v", body, err)
		}
		var again event.AgentRequest
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("%q cannot be read: %v", once, err)
		}
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("got %q, %v, want %q", twice, err, once)
		}
	})
}
