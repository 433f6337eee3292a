package e2e

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/agentbus/agentbus/pkg/sse"
)

// TestSessionStartAndEndAreReported follows a session in both vocabularies until it is deleted.
func TestSessionStartAndEndAreReported(t *testing.T) {
	t.Parallel()
	id := session(t, members{"agent": "demo"})
	route := "/api/v1/sessions/events/stream?from=start&sessionId=" + id
	nested := sse.NewReader(call(t.Context(), t, http.MethodGet, route+"&format=protocol", "").Body)
	flat := sse.NewReader(call(t.Context(), t, http.MethodGet, route, "").Body)
	begun, err := nested.Next()
	if err != nil {
		t.Fatal(err)
	}
	if e := decoded(t, []sse.Event{begun})[0]; e.text("type") != "session_start" || e.text("data", "sessionId") != id || e.text("data", "agentName") != "demo" || begun.ID != "" {
		t.Errorf("the first event is %+v", begun)
	}
	tarko(t, http.MethodPost, "/sessions/query", members{"sessionId": id, "query": everything}, 200)
	tarko(t, http.MethodPost, "/sessions/delete", members{"sessionId": id}, 200)
	told := rest(t, nested)
	messages := 0.0
	for _, e := range told {
		if kind := e.text("type"); kind == "user_message" || kind == "assistant_message" {
			messages++
		}
	}
	end := told[len(told)-1]
	if lasted, _ := end.at("data", "duration").(float64); end.text("type") != "session_end" || end.at("data", "messageCount") != messages || messages != 3 || lasted <= 0 {
		t.Errorf("behind %v messages: the last event is %v", messages, end)
	}
	all := rest(t, flat)
	if first, last := all[0].text("type"), all[len(all)-1].text("type"); first != "user_message" || last != "agent_run_end" {
		t.Errorf("the flat stream goes from %s to %s", first, last)
	}
}

// rest reads a stream to its end.
func rest(t *testing.T, r *sse.Reader) []members {
	t.Helper()
	var events []sse.Event
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) && len(events) > 0 {
			return decoded(t, events)
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
}
