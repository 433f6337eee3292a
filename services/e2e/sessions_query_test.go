package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestAQueryStreamsFlatEventsInBlocksThatThePublishedClientTakes(t *testing.T) { // C2, K1
	t.Parallel()
	id := session(t, nil)
	text, _ := json.Marshal(members{"sessionId": id, "query": everything})
	body := readAll(t, call(t.Context(), t, http.MethodPost, "/api/v1/sessions/query/stream", string(text)))
	var taken []members
	for block := range strings.SplitSeq(body, "\n\n") {
		data, ok := strings.CutPrefix(block, "data: ")
		if !ok {
			if block != "" && !strings.HasPrefix(block, "id: ") && !strings.HasPrefix(block, ":") && !strings.HasPrefix(block, "retry: ") {
				t.Errorf("block %q is neither data nor an id, a comment or a retry", block)
			}
			continue
		}
		var m members
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("block %q: %v", block, err)
		}
		taken = append(taken, m)
	}
	want := "user_message agent_run_start assistant_streaming_thinking_message assistant_streaming_message " +
		"assistant_streaming_tool_call assistant_thinking_message assistant_message tool_call tool_result assistant_streaming_message assistant_message agent_run_end"
	if got := types(taken); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAQueryStreamsNamedEventsOnRequest(t *testing.T) {
	t.Parallel()
	id := session(t, nil)
	response, events := tarkoStream(t, "/sessions/query/stream?format=protocol", members{"sessionId": id, "query": "/say hello you"})
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Errorf("got %s", kind)
	}
	for i, e := range decoded(t, events) {
		if events[i].Name != e.text("type") || e.text("sessionId") != id || e.at("data") == nil || events[i].ID == "" {
			t.Errorf("got %+v with %v", events[i], e)
		}
	}
	want := "user_message agent_run_start assistant_message_start assistant_message_delta assistant_message agent_run_end"
	if got := types(decoded(t, events)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAQueryIsAnsweredWithResultResponseAndEvents(t *testing.T) {
	t.Parallel()
	id := session(t, nil)
	answer := tarko(t, http.MethodPost, "/sessions/query", members{
		"sessionId": id, "query": []members{{"type": "text", "text": "/say forty"}, {"type": "text", "text": "/say two"}},
	}, 200)
	if answer.text("result", "type") != "assistant_message" || answer.text("result", "content") != answer.text("response") || !strings.Contains(answer.text("response"), "two") {
		t.Errorf("got %v", answer)
	}
	if got := types(answer.events()); got != "user_message agent_run_start assistant_message agent_run_end" {
		t.Errorf("got %s", got)
	}
	failed := tarko(t, http.MethodPost, "/sessions/query", members{"sessionId": id, "query": "/fail agent_error"}, 500)
	if failed.at("success") != false || failed.text("error", "code") != "AGENT_EXECUTION_ERROR" || failed.text("error", "message") == "" || failed.text("error", "details", "code") != "agent_error" {
		t.Errorf("got %v", failed)
	}
	if status := tarko(t, http.MethodGet, "/sessions/status?sessionId="+id, nil, 200); status.text("status", "state") != "error" || status.at("status", "isProcessing") != false {
		t.Errorf("got %v", status)
	}
}
