package wire_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/wire"
	"github.com/go-json-experiment/json"
)

const png = "iVBORw0KGgoAAAANSUhEUg=="

func TestDecodeTakes(t *testing.T) {
	t.Parallel()
	tests := []struct{ what, body, want string }{
		{"a text", `{"sessionId":"s1","query":"hi"}`,
			`{"messages":[{"role":"user","content":"hi"}],"threadId":"s1"}`},
		{"a query that begins a session", `{"query":"hi","sessionName":"x"}`,
			`{"messages":[{"role":"user","content":"hi"}]}`},
		{"what another version or a WebSocket sends along", `{"type":"send_query","sessionId":"s1","query":"hi","extra":{"a":[1]}}`,
			`{"messages":[{"role":"user","content":"hi"}],"threadId":"s1"}`},
		{"a user_message's content", `{"sessionId":"s1","content":"hi"}`,
			`{"messages":[{"role":"user","content":"hi"}],"threadId":"s1"}`},
		{"a text and an image", `{"sessionId":"s1","query":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `","detail":"high"}}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","data":"` + png + `","mediaType":"image/png"}]}],"threadId":"s1"}`},
		{"an empty text before others, as Tarko's page sends it", `{"sessionId":"s1","query":[{"type":"text","text":""},{"type":"text","text":"hi"}]}`,
			`{"messages":[{"role":"user","content":"hi"}],"threadId":"s1"}`},
		{"an image by URL", `{"sessionId":"s1","query":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`,
			`{"messages":[{"role":"user","content":[{"type":"image","url":"https://example.com/a.png"}]}],"threadId":"s1"}`},
		{"a file", `{"sessionId":"s1","query":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjcK"}}]}`,
			`{"messages":[{"role":"user","content":[{"type":"file","data":"JVBERi0xLjcK","mediaType":"application/pdf","name":"a.pdf"}]}],"threadId":"s1"}`},
		{"an answer to an action, without a text", `{"sessionId":"s1","actionResults":[{"actionId":"act_1","status":"success","result":{"a":1}}]}`,
			`{"messages":[],"threadId":"s1","context":{"actionResults":[{"actionId":"act_1","status":"success","result":{"a":1}}]}}`},
		{"an answer to an action, and a text", `{"sessionId":"s1","query":"continue","actionResults":[{"actionId":"act_1","status":"denied","error":"no"}]}`,
			`{"messages":[{"role":"user","content":"continue"}],"threadId":"s1","context":{"actionResults":[{"actionId":"act_1","status":"denied","error":"no"}]}}`},
	}
	for _, test := range tests {
		r, err := wire.Codec{}.Decode([]byte(test.body))
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		got, err := json.Marshal(r)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, want %s (%v)", test.what, got, test.want, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	query := func(parts string) string { return `{"sessionId":"s1","query":` + parts + `}` }
	action := func(entries string) string { return `{"sessionId":"s1","actionResults":[` + entries + `]}` }
	tests := []struct{ what, body, says string }{
		{"no query", `{"sessionId":"s1"}`, "Query is required"},
		{"an empty query", query(`""`), "Query is required"},
		{"no parts", query(`[]`), "Query is required"},
		{"a null", query(`null`), "must be a string, or an array of parts"},
		{"a number", query(`7`), "query has the wrong type: it must be a string"},
		{"a session that would be two tokens of a subject", `{"sessionId":"a.b","query":"hi"}`, "sessionId"},
		{"a session that is a number", `{"sessionId":7,"query":"hi"}`, "sessionId has the wrong type"},
		{"empty texts alone", query(`[{"type":"text","text":""},{"type":"text","text":""}]`), "query is empty"},
		{"a part of another type", query(`[{"type":"input_audio"}]`), "query[0] must be"},
		{"an image without a URL", query(`[{"type":"image_url"}]`), "query[0] must be"},
		{"an image of a page", query(`[{"type":"image_url","image_url":{"url":"javascript:alert(1)"}}]`), "query[0].image_url.url"},
		{"a drawing that may hold scripts", query(`[{"type":"image_url","image_url":{"url":"data:image/svg+xml;base64,PHN2Zz4="}}]`), "image/svg+xml"},
		{"invalid base64", query(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,!"}}]`), "base64"},
		{"a file in two places", query(`[{"type":"file","file":{"file_data":"data:a/b;base64,AA==","url":"https://a/b"}}]`), "query[0] must be"},
		{"a file with a path for a name", query(`[{"type":"file","file":{"filename":"../a","file_data":"data:text/plain;base64,YQ=="}}]`), "path"},
		{"too many parts", query(`[` + strings.Repeat(`{},`, 100) + `{}]`), "more than 100 entries"},
		{"too many results", action(strings.Repeat(`{},`, 100) + `{}`), "more than 100 entries"},
		{"a result of no action", action(`{"status":"success"}`), "actionResults[0].actionId"},
		{"two results of one action", action(`{"actionId":"a","status":"success"},{"actionId":"a","status":"denied"}`), "repeats"},
		{"a result that is neither yes nor no", action(`{"actionId":"a","status":"maybe"}`), "maybe"},
		{"a member twice", `{"sessionId":"s1","query":"a","query":"b"}`, "not valid JSON"},
		{"half a body", `{"sessionId":"s1"`, "not valid JSON near byte"},
	}
	for _, test := range tests {
		_, err := wire.Codec{}.Decode([]byte(test.body))
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want an invalid_message_format that says %q", test.what, err, test.says)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"sessionId":"s1","query":"hi"}`,
		`{"sessionId":"s1","query":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}}]}`,
		`{"sessionId":"s1","query":[{"type":"file","file":{"filename":"a","url":"https://example.com/a"}}]}`,
		`{"sessionId":"s1","actionResults":[{"actionId":"a","status":"denied","error":"no"}]}`,
		`{"query":[[[`, `{`, `[]`, "\x00",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := wire.Codec{}.Decode(body)
		switch code := apierr.CodeOf(err); {
		case err != nil && code != apierr.InvalidMessageFormat && code != apierr.MessageTooLarge:
			t.Fatalf("%q: %v", body, err)
		case err != nil:
			return
		}
		if len(r.Messages) == 0 && len(r.Context.ActionResults) == 0 {
			t.Fatalf("%q: a request that says nothing", body)
		}
		line, err := event.Encode(event.Event{Body: event.Input{Messages: r.Messages, ActionResults: r.Context.ActionResults}})
		if err != nil {
			t.Fatalf("%q: what was taken cannot be written: %v", body, err)
		}
		if _, err := event.Decode(line); err != nil {
			t.Fatalf("%q: what was taken cannot be read: %v", body, err)
		}
	})
}
