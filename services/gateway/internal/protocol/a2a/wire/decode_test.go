package wire_test

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/go-json-experiment/json"
)

// waits are the actions of a task.
func waits(kinds ...event.ContinuationKind) []event.Continuation {
	var all []event.Continuation
	for _, kind := range kinds {
		all = append(all, event.Continuation{ActionID: "act_" + string(kind), Kind: kind})
	}
	return all
}

func message(parts string) string {
	return `{"message":{"messageId":"m","role":"ROLE_USER","parts":[` + parts + `]}}`
}

func TestRequest(t *testing.T) {
	t.Parallel()
	approval, input, tool := event.ContinueApproval, event.ContinueInput, event.ContinueTool
	text := func(content string) string {
		return `{"messages":[{"id":"m","role":"user","content":` + content + `}]}`
	}
	result := func(action, rest string) string {
		return `{"messages":[],"context":{"actionResults":[{"actionId":"act_` + action + `","status":` + rest + `}]}}`
	}
	tests := []struct {
		what, parts string
		waiting     []event.Continuation
		want        string
	}{
		{"a text", `{"text":"hi"}`, nil, text(`"hi"`)},
		{"members that are not known", `{"text":"hi","x":1}`, nil, text(`"hi"`)},
		{"files", `{"text":"see"},{"url":"https://example.com/a.png","mediaType":"image/png"},{"raw":"aGk=","filename":"a.txt"}`, nil,
			text(`[{"type":"text","text":"see"},{"type":"image","url":"https://example.com/a.png","mediaType":"image/png"},` +
				`{"type":"file","data":"aGk=","mediaType":"text/plain","name":"a.txt"}]`)},
		{"data", `{"data":{"a":[1]}}`, nil, text(`"{\"a\":[1]}"`)},
		{"data that is not an answer", `{"data":{"page":1}}`, waits(input), text(`"{\"page\":1}"`)},
		{"an approval", `{"data":{"actionId":"act_approval","approved":true}}`, waits(approval, input), result("approval", `"success"`)},
		{"an approval without its action", `{"data":{"approved":true}}`, waits(approval), result("approval", `"success"`)},
		{"a denial", `{"data":{"approved":false,"reason":"no"}}`, waits(approval), result("approval", `"denied","error":"no"`)},
		{"an approval in text", `{"text":" Approve"}`, waits(approval), result("approval", `"success"`)},
		{"a denial in text", `{"text":"deny"}`, waits(approval), result("approval", `"denied"`)},
		{"another text while an approval waits", `{"text":"why?"}`, waits(approval), text(`"why?"`)},
		{"an answer", `{"data":{"answer":"3"}}`, waits(input), result("input", `"success","result":"3"`)},
		{"an answer in text", `{"text":"3"}`, waits(input), result("input", `"success","result":"3"`)},
		{"a text while several actions wait", `{"text":"3"}`, waits(input, approval), text(`"3"`)},
		{"the result of a tool", `{"data":{"result":{"a":1}}}`, waits(tool), result("tool", `"success","result":{"a":1}`)},
		{"a tool that failed", `{"data":{"error":"gone"}}`, waits(tool), result("tool", `"error","error":"gone"`)},
		{"an answer and a message", `{"data":{"approved":true}},{"text":"and hurry"}`, waits(approval),
			`{"messages":[{"id":"m","role":"user","content":"and hurry"}],"context":{"actionResults":[{"actionId":"act_approval","status":"success"}]}}`},
	}
	for _, test := range tests {
		in, err := wire.DecodeSend([]byte(message(test.parts)))
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		r, err := in.Request(test.waiting)
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		got, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.what, got, test.want)
		}
	}
}

func TestRequestRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body string
		says string
	}{
		{`[]`, "JSON object"},
		{`{}`, "messageId"},
		{`{"message":{"messageId":"m","parts":[{"text":"hi"}]}}`, "role"},
		{`{"message":{"messageId":"` + strings.Repeat("m", 129) + `","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, "messageId"},
		{`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}`, "ROLE_USER"},
		{`{"message":{"messageId":"m","role":"ROLE_USER","contextId":"a b","parts":[{"text":"hi"}]}}`, "contextId"},
		{`{"message":{"messageId":"m","role":"ROLE_USER","taskId":"a b","parts":[{"text":"hi"}]}}`, "no task"},
		{`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"historyLength":-1}}`, "historyLength"},
		{message(``), "parts is empty"},
		{message(`{}`), "one of text"},
		{message(`{"text":"a","url":"https://example.com"}`), "one of text"},
		{message(`{"text":""}`), "no text"},
		{message(`{"url":"file:///etc/passwd"}`), "url"},
		{message(`{"raw":"%"}`), "wrong type"},
		{message(strings.Repeat(`{"text":"x"},`, 100) + `{"text":"x"}`), "more than 100"},
		{message(`{"data":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`), "nested"},
		{message(`{"data":{"actionId":"act_other","approved":true}}`), "does not wait"},
		{message(`{"data":{"actionId":"act_approval"}}`), "approved"},
		{message(`{"data":{"actionId":"act_approval","answer":"yes"}}`), "approved"},
	}
	for _, test := range tests {
		in, err := wire.DecodeSend([]byte(test.body))
		if err == nil {
			_, err = in.Request(waits(event.ContinueApproval))
		}
		if code := apierr.CodeOf(err); err == nil || code != apierr.InvalidMessageFormat && code != apierr.InvalidActionID || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.120s: got %v, want an error that says %q", test.body, err, test.says)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"1.0": true, "1.0.1": true, "": false, "0.3": false, "1.00": false, "1": false, "2.0": false} {
		if err := wire.CheckVersion(version); (err == nil) != want {
			t.Errorf("%q: got %v, want accepted = %t", version, err, want)
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	var all []wire.Task
	for i, state := range []wire.State{wire.StateCompleted, wire.StateFailed, wire.StateCompleted} {
		at := "2026-01-01T00:00:0" + strconv.Itoa(i) + ".000Z"
		all = append(all, wire.Task{ID: "t" + strconv.Itoa(i), Status: wire.Status{State: state, Timestamp: at}})
	}
	tests := []struct {
		what, query string
		want        string // ids, the total, and the next page
	}{
		{"all, the newest first", "contextId=c", "t2 t1 t0 3 "},
		{"a page", "contextId=c&pageSize=2", "t2 t1 3 2026-01-01T00:00:01.000Z/t1"},
		{"the next page", "contextId=c&pageSize=2&pageToken=2026-01-01T00:00:01.000Z/t1", "t0 3 "},
		{"a state", "contextId=c&status=TASK_STATE_COMPLETED", "t2 t0 2 "},
		{"every state", "contextId=c&status=TASK_STATE_UNSPECIFIED", "t2 t1 t0 3 "},
		{"a time", "contextId=c&statusTimestampAfter=2026-01-01T01:00:01%2B01:00", "t2 t1 2 "},
		{"without a context", "", "contextId"},
		{"an id that is not valid", "contextId=a.b", "contextId"},
		{"an unknown state", "contextId=c&status=x", "status"},
		{"a page that is too large", "contextId=c&pageSize=101", "pageSize"},
		{"a page that is too small", "contextId=c&pageSize=0", "pageSize"},
		{"a wrong number", "contextId=c&historyLength=-1", "historyLength"},
		{"a wrong boolean", "contextId=c&includeArtifacts=x", "includeArtifacts"},
		{"a wrong time", "contextId=c&statusTimestampAfter=x", "statusTimestampAfter"},
	}
	for _, test := range tests {
		values, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := wire.ParseListQuery(values)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", test.what, err, test.want)
			}
			continue
		}
		page := q.Page(slices.Clone(all))
		got := ""
		for _, one := range page.Tasks {
			got += one.ID + " "
		}
		if got += strconv.Itoa(page.TotalSize) + " " + page.NextPageToken; got != test.want {
			t.Errorf("%s: got %q, want %q", test.what, got, test.want)
		}
	}
}

func FuzzDecodeSend(f *testing.F) {
	f.Add([]byte(message(`{"text":"hi"},{"data":{"actionId":"act_input","answer":"3"}}`)))
	f.Add([]byte(`{"message":{"messageId":"m","role":"ROLE_USER","contextId":"c","taskId":"t","parts":[{"raw":"aGk="}],"metadata":{"a":1}},"metadata":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := wire.DecodeSend(body)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v, want invalid_message_format", err)
			}
			return
		}
		r, err := in.Request(waits(event.ContinueInput))
		if err != nil {
			return
		}
		if r.ThreadID != "" && !id.Valid(r.ThreadID) || len(r.Messages) == 0 && len(r.Context.ActionResults) == 0 {
			t.Fatalf("got %+v", r)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeCall(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t","historyLength":2}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := wire.DecodeCall(body)
		if err != nil {
			if _, failed := json.Marshal(wire.RPCError(call.ID, apierr.From(err))); failed != nil || apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v, %v", err, failed)
			}
			return
		}
		if _, err := wire.DecodeTaskQuery(call.Params); err != nil && apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Fatalf("got %v", err)
		}
		if _, err := wire.DecodeListQuery(call.Params); err != nil && apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Fatalf("got %v", err)
		}
	})
}

func FuzzDecodePush(f *testing.F) {
	f.Add([]byte(`{"taskId":"t","id":"c","url":"https://example.com","token":"x","authentication":{"scheme":"Bearer","credentials":"y"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := wire.DecodePush(body)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Fatalf("got %v, want invalid_message_format", err)
			}
			return
		}
		if p.URL == "" || p.ID != "" && !id.Valid(p.ID) {
			t.Fatalf("got %+v", p)
		}
	})
}
