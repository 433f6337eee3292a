package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/sse"
	jsonv2 "github.com/go-json-experiment/json"
)

func TestASessionIsMadeShownChangedAndDeleted(t *testing.T) {
	t.Parallel()
	made := tarko(t, http.MethodPost, "/sessions/create", members{
		"name": "Plans", "tags": []string{"a", "b"}, "runtimeSettings": members{"agent": "queueing", "tone": "dry"}, "agentOptions": members{"x": 1},
	}, http.StatusCreated)
	id := made.text("sessionId")
	if made.text("session", "id") != id || made.at("createdAt") != made.at("session", "createdAt") || len(made.events()) != 0 || made["events"] == nil {
		t.Errorf("got %v", made)
	}
	tarko(t, http.MethodPost, "/sessions/update", members{"sessionId": id, "metadata": members{"name": "New plans", "color": "red", "agentInfo": members{"name": "z"}}}, 200)
	tarko(t, http.MethodPost, "/sessions/update", members{"sessionId": id, "metadata": members{"folder": 7, "color": nil}}, 200)
	shown := tarko(t, http.MethodGet, "/sessions/details?sessionId="+id, nil, 200)
	metadata, err := jsonv2.Marshal(shown.at("session", "metadata"), jsonv2.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	if m := string(metadata); shown.text("session", "metadata", "name") != "New plans" || shown.text("session", "metadata", "agentInfo", "name") != "queueing" ||
		!strings.Contains(m, `"agentOptions":{"x":1}`) || !strings.Contains(m, `"folder":7`) || strings.Contains(m, "color") || !strings.Contains(m, `"tags":["a","b"]`) {
		t.Errorf("got %s", m)
	}
	if thread := get[historyapi.Thread](t, path("/v1/threads/%s", id)); thread.Title != "New plans" || thread.Requests != 0 {
		t.Errorf("the native thread is %+v", thread)
	}
	listed := tarko(t, http.MethodGet, "/sessions?limit=200", nil, 200)
	if all, _ := jsonv2.Marshal(listed); !strings.Contains(string(all), id) {
		t.Error("the session is not listed")
	}
	if gone := tarko(t, http.MethodPost, "/sessions/delete", members{"sessionId": id}, 200); gone.at("success") != true {
		t.Errorf("got %v", gone)
	}
	for _, route := range []string{"details", "events", "status"} {
		if e := tarko(t, http.MethodGet, "/sessions/"+route+"?sessionId="+id, nil, 404); e.text("error") != "Session not found" {
			t.Errorf("%s: got %v", route, e)
		}
	}
}

func TestEventsAreListedInPagesAndByTypeAndTime(t *testing.T) {
	t.Parallel()
	id := session(t, nil)
	tarkoStream(t, "/sessions/query/stream", members{"sessionId": id, "query": everything})
	tarkoStream(t, "/sessions/query/stream", members{"sessionId": id, "query": "/say again"})
	list := func(parameters string) members {
		return tarko(t, http.MethodGet, "/sessions/events?sessionId="+id+parameters, nil, 200)
	}
	all := list("")
	want := "user_message agent_run_start assistant_thinking_message assistant_message tool_call tool_result assistant_message agent_run_end " +
		"user_message agent_run_start assistant_message agent_run_end"
	if got := types(all.events()); got != want || all.at("hasMore") != false {
		t.Errorf("got %s, %v\nwant %s", got, all.at("hasMore"), want)
	}
	var paged []members
	for more := true; more; {
		page := list("&limit=5&offset=" + url.QueryEscape(string(jsonText(t, len(paged)))))
		if page.at("hasMore") == false && page.at("total") != all.at("total") {
			t.Fatalf("got a total of %v on the last page, want %v", page.at("total"), all.at("total"))
		}
		paged = append(paged, page.events()...)
		more, _ = page.at("hasMore").(bool)
	}
	if types(paged) != want || len(paged) != len(all.events()) {
		t.Errorf("in pages: got %d events, %s", len(paged), types(paged))
	}
	if got := types(list("&type=tool_*,user_message").events()); got != "user_message tool_call tool_result user_message" {
		t.Errorf("by type: got %s", got)
	}
	second := string(jsonText(t, list("&type=user_message").events()[1].at("timestamp")))
	if got := types(list("&since=" + second).events()); got != "user_message agent_run_start assistant_message agent_run_end" {
		t.Errorf("since the second query: got %s", got)
	}
	if got := types(list("&format=protocol&type=session_start,user_message").events()); got != "session_start user_message" {
		t.Errorf("nested: got %s", got)
	}
}

func jsonText(t *testing.T, value any) json.RawMessage {
	t.Helper()
	text, err := jsonv2.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestOtherScreensSeeWhatASessionDoes(t *testing.T) {
	t.Parallel()
	id := session(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	response := call(ctx, t, http.MethodGet, "/api/v1/sessions/events/stream?sessionId="+id, "")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got %s", readAll(t, response))
	}
	_, asked := tarkoStream(t, "/sessions/query/stream", members{"sessionId": id, "query": everything})
	reader := sse.NewReader(response.Body)
	var watched []sse.Event
	for len(watched) < len(asked) {
		e, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Name != "" && e.Name != "message" {
			t.Errorf("got the name %q, which hides an event from onmessage", e.Name)
		}
		watched = append(watched, e)
	}
	leave()
	for i := range asked {
		if string(watched[i].Data) != string(asked[i].Data) {
			t.Fatalf("event %d: got %s, want %s", i, watched[i].Data, asked[i].Data)
		}
	}
	middle := slices.IndexFunc(asked, func(e sse.Event) bool { return strings.Contains(string(e.Data), `"tool_call"`) })
	again, stop := context.WithCancel(t.Context())
	defer stop()
	resumed := call(again, t, http.MethodGet, "/api/v1/sessions/events/stream?sessionId="+id, "", header{"Last-Event-ID", watched[middle].ID})
	reader = sse.NewReader(resumed.Body)
	for i := middle + 1; i < len(asked); i++ {
		if e, err := reader.Next(); err != nil || string(e.Data) != string(asked[i].Data) {
			t.Fatalf("resumed event %d: got %s, %v, want %s", i, e.Data, err, asked[i].Data)
		}
	}
}

func TestARunningSessionIsBusyAndCanBeStopped(t *testing.T) { // C10
	t.Parallel()
	id := session(t, nil)
	if a := tarko(t, http.MethodPost, "/sessions/abort", members{"sessionId": id}, 200); a.at("success") != false {
		t.Errorf("nothing runs: got %v", a)
	}
	text := string(jsonText(t, members{"sessionId": id, "query": "/stream 10000 20"}))
	response := call(t.Context(), t, http.MethodPost, "/api/v1/sessions/query/stream", text)
	reader := sse.NewReader(response.Body)
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	if s := tarko(t, http.MethodGet, "/sessions/status?sessionId="+id, nil, 200); s.at("status", "isProcessing") != true || s.text("status", "state") != "executing" {
		t.Errorf("got %v", s)
	}
	busy := tarko(t, http.MethodPost, "/sessions/query", members{"sessionId": id, "query": "me too"}, 409)
	if busy.text("error") == "" || busy.text("runningRequestId") != response.Header.Get("X-Request-Id") {
		t.Errorf("got %v", busy)
	}
	if a := tarko(t, http.MethodPost, "/sessions/abort", members{"sessionId": id}, 200); a.at("success") != true {
		t.Errorf("got %v", a)
	}
	if s := tarko(t, http.MethodGet, "/sessions/status?sessionId="+id, nil, 200); s.text("status", "state") != "aborted" {
		t.Errorf("the abort is answered, and the session is %v", s)
	}
	last := ""
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = string(e.Data)
	}
	if !strings.Contains(last, `"agent_run_end"`) || !strings.Contains(last, `"aborted"`) {
		t.Errorf("the stream ends with %s", last)
	}
}

func TestOneshotMakesASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	answer := tarko(t, http.MethodPost, "/oneshot/query", members{"query": "/say once", "sessionName": "Once", "sessionTags": []string{"x"}}, 200)
	details := tarko(t, http.MethodGet, "/sessions/details?sessionId="+answer.text("sessionId"), nil, 200)
	if answer.text("result", "content") != "once" || details.text("session", "metadata", "name") != "Once" {
		t.Errorf("got %v and %v", answer, details)
	}
	_, events := tarkoStream(t, "/oneshot/query/stream", members{"query": "/say twice"})
	told := decoded(t, events)
	if got := types(told); got != "session_created user_message agent_run_start assistant_streaming_message assistant_message agent_run_end" {
		t.Errorf("got %s", got)
	}
	list := tarko(t, http.MethodGet, "/sessions/events?sessionId="+told[0].text("sessionId"), nil, 200)
	if got := types(list.events()); got != "user_message agent_run_start assistant_message agent_run_end" {
		t.Errorf("got %s", got)
	}
}

func TestAThreadIsASessionAndASessionIsAThread(t *testing.T) {
	t.Parallel()
	native := post(t, "demo", prompt("/say natively"))
	list := tarko(t, http.MethodGet, "/sessions/events?sessionId="+native.ThreadID, nil, 200)
	if got := types(list.events()); got != "user_message agent_run_start assistant_message agent_run_end" {
		t.Errorf("a thread's events: got %s", got)
	}
	tarko(t, http.MethodPost, "/sessions/update", members{"sessionId": native.ThreadID, "metadata": members{"name": "Renamed"}}, 200)
	if thread := get[historyapi.Thread](t, path("/v1/threads/%s", native.ThreadID)); thread.Title != "Renamed" || thread.Requests != 1 {
		t.Errorf("got %+v", thread)
	}
	id := session(t, members{"name": "Both"})
	next := post(t, "demo", requestBody(event.AgentRequest{ThreadID: id, Messages: []event.InputMessage{event.UserText("/say first")}}))
	if next.ThreadID != id || answerText(next.done(t)) != "first" {
		t.Errorf("a session's first request came natively: got %s", next.shape())
	}
	answer := tarko(t, http.MethodPost, "/sessions/query", members{"sessionId": id, "query": "/say second"}, 200)
	messages := get[historyapi.MessagePage](t, path("/v1/threads/%s/messages", id)).Messages
	if answer.text("response") != "second" || len(messages) != 4 {
		t.Errorf("got %v, %d messages", answer, len(messages))
	}
}

func TestWhatTarkosRoutesRefuse(t *testing.T) {
	t.Parallel()
	id := session(t, nil)
	tests := []struct {
		does, method, route, body string
		status                    int
		says                      string
	}{
		{"no session", "GET", "/sessions/details", "", 400, "Session ID is required"},
		{"no session in the body", "POST", "/sessions/query", `{"query":"x"}`, 400, "Session ID is required"},
		{"an empty body", "POST", "/sessions/abort", "", 400, "Session ID is required"},
		{"an unknown session", "GET", "/sessions/events?sessionId=thr_none", "", 404, "Session not found"},
		{"an id that cannot be one", "GET", "/sessions/status?sessionId=a.b", "", 404, "Session not found"},
		{"an unknown session before an absent query", "POST", "/sessions/query", `{"sessionId":"nobody"}`, 404, "Session not found"},
		{"no query", "POST", "/sessions/query", `{"sessionId":"` + id + `"}`, 400, "Query is required"},
		{"no query to stream", "POST", "/sessions/query/stream", `{"sessionId":"` + id + `","query":""}`, 400, "Query is required"},
		{"no query for a oneshot", "POST", "/oneshot/query", `{}`, 400, "Query is required"},
		{"no messages", "POST", "/sessions/generate-summary", `{"sessionId":"` + id + `"}`, 400, "Messages are required"},
		{"no settings", "POST", "/runtime-settings", `{"sessionId":"` + id + `"}`, 400, "Runtime settings object is required"},
		{"no such agent", "POST", "/runtime-settings", `{"sessionId":"` + id + `","runtimeSettings":{"agent":"x"}}`, 400, "runtimeSettings.agent must be one of"},
		{"no model", "POST", "/sessions/model", `{"sessionId":"` + id + `"}`, 400, "Missing required parameters"},
		{"no such model", "POST", "/sessions/model", `{"sessionId":"` + id + `","model":{"provider":"x","id":"y"}}`, 400, "Invalid model configuration"},
		{"no paths", "POST", "/workspace/validate?sessionId=" + id, `{}`, 400, "Paths array is required"},
		{"no words", "GET", "/workspace/search?sessionId=" + id, "", 400, "Search query parameter is required"},
		{"no path", "GET", "/workspace/files?sessionId=" + id + "&path=/../etc", "", 404, "Path not found"},
		{"no JSON", "POST", "/sessions/create", `{"name":`, 400, "not valid JSON"},
		{"no object", "POST", "/sessions/create", `[]`, 400, "must be a JSON object"},
		{"the wrong type", "POST", "/sessions/create", `{"tags":"x"}`, 400, "tags has the wrong type"},
		{"a name twice", "POST", "/sessions/create", `{"name":"a","name":"b"}`, 400, "not valid JSON"},
		{"metadata that is not an object", "POST", "/sessions/update", `{"sessionId":"` + id + `","metadata":[]}`, 400, "metadata must be an object"},
		{"metadata that nests too deep", "POST", "/sessions/update", `{"sessionId":"` + id + `","metadata":{"a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}}`, 400, "nested more than"},
		{"metadata that is too large", "POST", "/sessions/update", `{"sessionId":"` + id + `","metadata":{"a":"` + strings.Repeat("x", 70<<10) + `"}}`, 400, "larger than"},
		{"a name that is too long", "POST", "/sessions/create", `{"name":"` + strings.Repeat("x", 501) + `"}`, 400, "name is longer than"},
		{"an invalid limit", "GET", "/sessions/events?sessionId=" + id + "&limit=-1", "", 400, "limit must be a number"},
		{"an invalid offset", "GET", "/sessions/events?sessionId=" + id + "&offset=x", "", 400, "offset must be a number"},
		{"an invalid time", "GET", "/sessions/events?sessionId=" + id + "&since=now", "", 400, "since must be a time"},
		{"an invalid format", "GET", "/sessions/events?sessionId=" + id + "&format=xml", "", 400, "format="},
		{"an invalid start", "GET", "/sessions/events/stream?sessionId=" + id + "&from=end", "", 400, "from="},
		{"an invalid cursor", "GET", "/sessions/events/stream?sessionId=" + id + "&after=x", "", 400, "the id to resume after"},
		{"a share provider", "POST", "/sessions/share", `{"sessionId":"` + id + `","upload":true}`, 400, "No share provider"},
	}
	for _, test := range tests {
		response := call(t.Context(), t, test.method, "/api/v1"+test.route, test.body)
		var refusal struct {
			Error string `json:"error"`
		}
		text := readAll(t, response)
		if err := jsonv2.Unmarshal([]byte(text), &refusal); err != nil || response.StatusCode != test.status || !strings.Contains(refusal.Error, test.says) {
			t.Errorf("%s: got %s with %s, want %d and %q", test.does, response.Status, text, test.status, test.says)
		}
	}
}

func TestWhatTarkosClientsAskFirst(t *testing.T) {
	t.Parallel()
	ask := func(route string) members { return tarko(t, http.MethodGet, route, nil, 200) }
	if m := ask("/health"); m.text("status") != "ok" {
		t.Errorf("got %v", m)
	}
	if m := ask("/version"); m.text("version") == "" {
		t.Errorf("got %v", m)
	}
	if m := ask("/agent/options"); m.text("options", "name") != "demo" {
		t.Errorf("got %v", m)
	}
	if m := ask("/models"); m["models"] == nil {
		t.Errorf("got %v", m)
	}
	if m := ask("/runtime-settings?sessionId=home-placeholder"); m.text("currentValues", "agent") != "demo" || m.text("schema", "properties", "agent", "type") != "string" {
		t.Errorf("got %v", m)
	}
	if m := ask("/share/config"); m.at("hasShareProvider") != false {
		t.Errorf("got %v", m)
	}
}

func TestASessionIsNamedAndShared(t *testing.T) {
	t.Parallel()
	id := session(t, members{"name": "<b>Sums</b>"})
	tarkoStream(t, "/sessions/query/stream", members{"sessionId": id, "query": everything})
	named := tarko(t, http.MethodPost, "/sessions/generate-summary", members{
		"sessionId": id, "messages": []members{{"role": "assistant", "content": "hello"}, {"role": "user", "content": "What  is\nsix times seven?"}},
	}, 200)
	if named.text("summary") != "What is six times seven?" {
		t.Errorf("got %v", named)
	}
	page := tarko(t, http.MethodPost, "/sessions/share", members{"sessionId": id}, 200).text("html")
	for _, want := range []string{"&lt;b&gt;Sums", "hello", `<section class="tool_result">`, ">42<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(page, "<b>Sums") {
		t.Error("the page takes a name for markup")
	}
	set := tarko(t, http.MethodPost, "/runtime-settings", members{"sessionId": id, "runtimeSettings": members{"agent": "queueing"}}, 200)
	if set.text("session", "metadata", "agentInfo", "name") != "queueing" {
		t.Errorf("got %v", set)
	}
}

func TestAnActionIsResolvedByAQuery(t *testing.T) {
	t.Parallel()
	id := session(t, nil)
	_, events := tarkoStream(t, "/sessions/query/stream", members{"sessionId": id, "query": "/approve echo {\"text\":\"ok\"}"})
	told := decoded(t, events)
	at := slices.IndexFunc(told, func(m members) bool { return m.text("type") == "action_required" })
	if at < 0 {
		t.Fatalf("got %s", types(told))
	}
	answer := tarko(t, http.MethodPost, "/sessions/query", members{
		"sessionId": id, "actionResults": []members{{"actionId": told[at].text("actionId"), "status": "success"}},
	}, 200)
	if got := types(answer.events()); !strings.Contains(got, "tool_result") {
		t.Errorf("got %s", got)
	}
}
