package wire_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/go-json-experiment/json"
)

func TestDecodeTakes(t *testing.T) {
	t.Parallel()
	tests := []struct{ does, body, want string }{
		{"a string as content", `{"messages":[{"role":"user","content":"hi"}]}`, ``},
		{"parts as content",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","url":"https://x.org/a.png"}]}]}`, ``},
		{"inline data",
			`{"messages":[{"role":"user","content":[{"type":"file","data":"aGk=","mediaType":"text/plain","name":"a.txt"}]}]}`, ``},
		{"a data URL, as data",
			`{"messages":[{"role":"user","content":[{"type":"image","url":"data:image/gif;base64,R0lGODlhAQABAA=="}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"image","data":"R0lGODlhAQABAA==","mediaType":"image/gif"}]}]}`},
		{"a thread", `{"messages":[{"role":"user","content":"hi"}],"threadId":"thr_1"}`, ``},
		{"action results without messages",
			`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"a","status":"success","result":{"x":1}}]}}`, ``},
		{"context members that we do not know", `{"messages":[{"role":"user","content":"hi"}],"context":{"locale":"de","deep":{"a":[1]}}}`, ``},
		{"part members that we do not know", `{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache":true}]}]}`, ``},
		{"null where absent is meant", `{"messages":[{"role":"user","content":"hi"}],"threadId":null,"context":null}`,
			`{"messages":[{"role":"user","content":"hi"}]}`},
		{"an escaped quote before brackets", `{"messages":[{"role":"user","content":"\"` + strings.Repeat("[", 100) + `"}]}`, ``},
	}
	for _, test := range tests {
		t.Run(test.does, func(t *testing.T) {
			t.Parallel()
			r, err := wire.Codec{}.Decode([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				test.want = test.body
			}
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestDecodeErrorsNamePlace(t *testing.T) {
	t.Parallel()
	message := func(m string) string { return `{"messages":[` + m + `]}` }
	results := func(r string) string { return `{"messages":[],"threadId":"t","context":{"actionResults":[` + r + `]}}` }
	tests := []struct{ what, body, says string }{
		{"nothing", ``, "must be a JSON object"},
		{"null", `null`, "must be a JSON object"},
		{"an array", `[]`, "must be a JSON object"},
		{"a string", `"hi"`, "must be a JSON object"},
		{"a byte order mark", "\ufeff{}", "must be a JSON object"},
		{"UTF-16", "{\x00}\x00", "not valid JSON"},
		{"a form", "--x\r\nContent-Disposition: form-data", "must be a JSON object"},
		{"half an object", `{"messages":[`, "not valid JSON"},
		{"something after the object", message(`{"role":"user","content":"hi"}`) + `{}`, "not valid JSON"},
		{"NaN", `{"messages":NaN}`, "not valid JSON"},
		{"a lone surrogate", message(`{"role":"user","content":"\ud800"}`), "messages[0].content"},
		{"invalid UTF-8", message("{\"role\":\"user\",\"content\":\"\xff\"}"), "messages[0].content"},
		{"an unknown member", `{"messages":[],"stream":true}`, "stream is not a member"},
		{"a member in another case", `{"Messages":[]}`, "Messages is not a member"},
		{"a repeated member", `{"threadId":"a","threadId":"b","messages":[]}`, "threadId appears twice"},
		{"an unknown message member", message(`{"role":"user","Content":"hi"}`), "messages[0].Content is not known"},
		{"a repeated status", results(`{"actionId":"a","status":"denied","status":"success"}`), "status appears twice"},
		{"a status in another case", results(`{"actionId":"a","Status":"success"}`), "actionResults[0].Status is not known"},
		{"__proto__", `{"messages":[],"__proto__":{}}`, "__proto__ is not a member"},
		{"no messages", `{}`, "messages is missing"},
		{"null messages", `{"messages":null}`, "messages is missing"},
		{"empty messages", `{"messages":[]}`, "messages is empty"},
		{"messages that are a string", `{"messages":"hi"}`, "messages must not be a JSON string"},
		{"messages that are an object", `{"messages":{}}`, "messages must not be a JSON object"},
		{"a message that is a string", message(`"hi"`), "messages[0] must not be a JSON string"},
		{"too many messages", message(strings.Repeat(`{"role":"user","content":"x"},`, 100) + `{"role":"user","content":"x"}`), "at most 100"},
		{"a hundred thousand messages", message(strings.Repeat(`{"role":"user","content":"x"},`, 100_000) + `{}`), "messages has more than 100"},
		{"too many parts", message(`{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"x"},`, 100) + `{}]}`),
			"messages[0].content has more than 100"},
		{"too many results", results(strings.Repeat(`{"actionId":"a","status":"success"},`, 100) + `{}`), "context.actionResults has more than 100"},
		{"a developer message", message(`{"role":"developer","content":"obey"}`), `messages[0].role is "developer"; only "user"`},
		{"a tool message", message(`{"role":"tool","content":"42"}`), `messages[0].role is "tool"; only "user"`},
		{"a role in another case", message(`{"role":"User","content":"hi"}`), `messages[0].role is "User"; only "user"`},
		{"a number that no float holds", `{"messages":[],"context":{"actionResults":[{"actionId":1e400}]}}`, "actionId must not be"},
		{"a system message", message(`{"role":"system","content":"obey"}`), `messages[0].role is "system"; only "user"`},
		{"an assistant message", message(`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`), "messages[1].role"},
		{"no role", message(`{"content":"hi"}`), "messages[0].role"},
		{"a role that is a number", message(`{"role":1,"content":"hi"}`), "messages[0].role must not be a JSON number"},
		{"no content", message(`{"role":"user"}`), "messages[0].content is missing"},
		{"null content", message(`{"role":"user","content":null}`), "messages[0].content"},
		{"content that is a number", message(`{"role":"user","content":1}`), "content must be a string or an array"},
		{"empty content", message(`{"role":"user","content":""}`), "messages[0].content[0] has no text"},
		{"no parts", message(`{"role":"user","content":[]}`), "messages[0].content is missing"},
		{"a part without text", message(`{"role":"user","content":[{"type":"text"}]}`), "messages[0].content[0] has no text"},
		{"a part without a type", message(`{"role":"user","content":[{"text":"hi"}]}`), "messages[0].content[0].type"},
		{"an unknown part", message(`{"role":"user","content":[{"type":"video","url":"https://x.org"}]}`), `"video"; use "text"`},
		{"an image of nothing", message(`{"role":"user","content":[{"type":"image"}]}`), "either a url or data"},
		{"an image of two", message(`{"role":"user","content":[{"type":"image","url":"https://x.org","data":"aGk="}]}`), "either a url or data"},
		{"a local file", message(`{"role":"user","content":[{"type":"file","url":"file:///etc/passwd"}]}`), "http or https"},
		{"a url without a host", message(`{"role":"user","content":[{"type":"file","url":"https:"}]}`), "http or https"},
		{"data of no kind", message(`{"role":"user","content":[{"type":"image","data":"aGk="}]}`), "mediaType"},
		{"data that is not base64", message(`{"role":"user","content":[{"type":"image","data":"!!","mediaType":"image/png"}]}`), "content[0].data"},
		{"a page that says it is an image", message(`{"role":"user","content":[{"type":"image","data":"PGh0bWw+","mediaType":"image/png"}]}`),
			"messages[0].content[0].mediaType is"},
		{"a data URL of wrong base64", message(`{"role":"user","content":[{"type":"image","url":"data:image/png;base64,!!"}]}`), "valid base64"},
		{"a name that is a path", message(`{"role":"user","content":[{"type":"file","data":"aGk=","mediaType":"text/plain","name":"../a"}]}`),
			"messages[0].content[0].name is the path"},
		{"a reference of the client's own", message(`{"role":"user","content":[{"type":"image","ref":{"object":"a","size":1,"sha256":"b"}}]}`),
			"messages[0].content[0].ref"},
		{"a text that also has data", message(`{"role":"user","content":[{"type":"text","text":"a","data":"aGk="}]}`), "content[0] is a text with"},
		{"a thousand parts", message(`{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"a"},`, 999) + `{"type":"text","text":"a"}]}`),
			"messages[0].content has more than 100 entries"},
		{"an empty threadId", `{"messages":[{"role":"user","content":"a"}],"threadId":""}`, "threadId"},
		{"a threadId with a dot", `{"messages":[{"role":"user","content":"a"}],"threadId":"a.b"}`, "threadId"},
		{"a threadId that is an object", `{"messages":[{"role":"user","content":"a"}],"threadId":{"$ne":1}}`, "threadId must not be"},
		{"results without a thread", `{"messages":[],"context":{"actionResults":[{"actionId":"a","status":"success"}]}}`, "needs threadId"},
		{"a result without an action", results(`{"status":"success"}`), "actionResults[0].actionId"},
		{"a result with a bad action", results(`{"actionId":"a>","status":"success"}`), "actionResults[0].actionId"},
		{"a result without a status", results(`{"actionId":"a"}`), "actionResults[0].status"},
		{"a result with an unknown status", results(`{"actionId":"a","status":"approved"}`), `"approved"; use "success"`},
		{"two results for one action", results(`{"actionId":"a","status":"success"},{"actionId":"a","status":"denied"}`), "repeats actionId a"},
		{"a context that is a string", `{"messages":[{"role":"user","content":"a"}],"context":"x"}`, "context must not be a JSON string"},
		{"a model that is a number", `{"messages":[{"role":"user","content":"a"}],"context":{"model":5}}`, "context.model must not be a JSON number"},
		{"a million brackets", strings.Repeat("[", 1_000_000), "must be a JSON object"},
		{"deep nesting", `{"messages":[],"context":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat("}", 71), "levels deep"},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			_, err := wire.Codec{}.Decode([]byte(test.body))
			f := apierr.From(err)
			if f == nil || f.Code != apierr.InvalidMessageFormat || f.Retryable {
				t.Fatalf("got %v, want invalid_message_format", err)
			}
			if !strings.Contains(f.Message, test.says) {
				t.Errorf("got %q, want it to say %q", f.Message, test.says)
			}
			if len(f.Message) > 400 || strings.Contains(f.Message, "Go ") || strings.Contains(f.Message, "jsontext") {
				t.Errorf("%q speaks of our insides, or too much", f.Message)
			}
		})
	}
}

// FuzzDecode says: no bytes make Decode panic, and what it takes keeps its rules and survives a round trip.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"}],"threadId":"t","context":{"model":"m","x":1}}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"image","data":"aGk=","mediaType":"image/png"}]}]}`))
	f.Add([]byte(`{"messages":[],"threadId":"t","context":{"actionResults":[{"actionId":"a","status":"denied"}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := wire.Codec{}.Decode(body)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v", err)
			}
			return
		}
		for _, m := range r.Messages {
			if m.Role != event.RoleUser || len(m.Content) == 0 {
				t.Fatalf("took %+v", m)
			}
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (wire.Codec{}).Decode(again); err != nil {
			t.Fatalf("%s: does not take what it gave: %v", again, err)
		}
	})
}

// hollow are bodies of half a megabyte, the limit by default, that are all structure and no content.
func hollow() map[string][]byte {
	const size = 512 << 10
	fill := func(before, after string) []byte {
		n := (size - len(before) - len(after)) / len("{},")
		return []byte(before + strings.Repeat("{},", n) + "{}" + after)
	}
	names := func(before, after string) []byte {
		var s strings.Builder
		for i := 0; s.Len() < size-100; i++ {
			fmt.Fprintf(&s, `"%x":0,`, i)
		}
		return []byte(before + s.String() + `"":0` + after)
	}
	return map[string][]byte{
		"messages":      fill(`{"messages":[`, `]}`),
		"parts":         fill(`{"messages":[{"role":"user","content":[`, `]}]}`),
		"results":       fill(`{"messages":[],"threadId":"t","context":{"actionResults":[`, `]}}`),
		"context":       fill(`{"messages":[{"role":"user","content":"x"}],"context":{"a":[`, `]}}`),
		"names":         names(`{"messages":[{"role":"user","content":"x"}],"context":{`, `}}`),
		"unknown names": names(`{"messages":[{"role":"user","content":"x",`, `}]}`),
		"brackets":      []byte(strings.Repeat("[", size)),
		"inner ones":    []byte(`{"messages":` + strings.Repeat("[", size)),
	}
}

// TestHollowBodiesAreCheap is not parallel, since it counts what the whole process allocates.
func TestHollowBodiesAreCheap(t *testing.T) {
	for what, body := range hollow() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = wire.Codec{}.Decode(body) // some are refused, some are taken
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 32*uint64(len(body)) {
			t.Errorf("%s: %d bytes of body became %d bytes", what, len(body), used)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	bodies := hollow()
	bodies["text"] = []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("x", 512<<10) + `"}]}`)
	for what, body := range bodies {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				_, _ = wire.Codec{}.Decode(body)
			}
		})
	}
}
