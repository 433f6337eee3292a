package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

// declaring is a request that declares a tool.
func declaring(lines ...string) event.AgentRequest {
	return event.AgentRequest{
		Messages: []event.InputMessage{event.UserText(strings.Join(lines, "\n"))},
		Tools:    []event.RequestTool{{Name: "locate", Schema: json.RawMessage(`{"type":"object"}`)}},
		Context:  event.Context{Extra: event.NewMembers([]byte(`{"user":"ada"}`))},
	}
}

func TestTheToolOfARequestIsCalledAndAnsweredByTheClient(t *testing.T) {
	t.Parallel()
	tr := post(t, "demo", requestBody(declaring("/tool locate {}", "/tool locate {}", "/say thanks")))
	action := only[event.Continuation](t, tr)
	if tr.done(t).FinishReason != event.FinishActionRequired || action.Kind != event.ContinueTool || action.Payload.Tool != "locate" {
		t.Fatalf("got %+v in %s", action, tr.shape())
	}
	next := post(t, "demo", resolve(tr.ThreadID, success(action.ActionID, `"Oslo"`))) // keeps the tool without declaring it
	again := only[event.Continuation](t, next)
	if again.Payload.Tool != "locate" || again.ActionID == action.ActionID {
		t.Fatalf("got %+v in %s", again, next.shape())
	}
	last := post(t, "demo", resolve(tr.ThreadID, success(again.ActionID, `"Bergen"`)))
	if got := answerText(last.done(t)); got != "thanks" {
		t.Errorf("got %q, want thanks", got)
	}
	forgotten := post(t, "demo", requestBody(event.AgentRequest{
		ThreadID: tr.ThreadID, Messages: []event.InputMessage{event.UserText("/tool locate {}\n/say none")},
	}))
	if r := forgotten.results()["locate"]; r.Status != event.ToolFailed {
		t.Errorf("got result %+v, want an unknown tool: another request did not declare it", r)
	}
}

func TestARequestWithAnInvalidToolIsRefused(t *testing.T) {
	t.Parallel()
	r := declaring("/say hi")
	r.Tools[0].Name = "calculator"
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/requests", requestBody(r))
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s, want 400", response.Status)
	}
}
