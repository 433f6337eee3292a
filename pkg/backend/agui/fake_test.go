package agui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	jsonv2 "github.com/go-json-experiment/json"
)

// input is what the agent under test reads of a run.
type input struct {
	ThreadID string `json:"threadId"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

// agent is an agent whose events depend on what the user has said.
func agent(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in input
		if err := jsonv2.UnmarshalRead(r.Body, &in); err != nil || in.ThreadID == "" {
			http.Error(w, "no RunAgentInput", http.StatusBadRequest)
			return
		}
		answer(w, r, in)
	}))
	t.Cleanup(server.Close)
	return server
}

const started = `RUN_STARTED","threadId":"t","runId":"r"`

func answer(w http.ResponseWriter, r *http.Request, in input) {
	last := in.Messages[len(in.Messages)-1]
	said := strings.Trim(string(last.Content), `"`)
	text := func(text string) string {
		return fmt.Sprintf(`TEXT_MESSAGE_START","messageId":"m","role":"assistant" TEXT_MESSAGE_CONTENT","messageId":"m","delta":%q TEXT_MESSAGE_END","messageId":"m"`, text)
	}
	call := func(id, name string) string {
		return fmt.Sprintf(`TOOL_CALL_START","toolCallId":%[1]q,"toolCallName":%[2]q TOOL_CALL_ARGS","toolCallId":%[1]q,"delta":"{}" TOOL_CALL_END","toolCallId":%[1]q`, id, name)
	}
	const end = ` RUN_FINISHED","threadId":"t","runId":"r","usage":[{"model":"m1","inputTokens":3,"outputTokens":2}]`
	events := map[string]string{
		"text":     text("Hello") + end,
		"thinking": `REASONING_MESSAGE_CONTENT","messageId":"h","delta":"hm" ` + text("ok") + end,
		"call":     call("a", "clock") + end,
		"calls":    call("a", "clock") + " " + call("b", "clock") + end,
		"tools":    call("t", "read") + ` TOOL_CALL_RESULT","messageId":"x","toolCallId":"t","content":"A" ` + text("done") + end,
		"later":    `RUN_ERROR","message":"no\u00a0capacity","metadata":{"retryable":true}`,
		"never":    `RUN_ERROR","message":"no\u00a0such\u00a0customer"`,
	}[said]
	if last.Role == "tool" {
		events = text("it\u00a0is\u00a0"+said) + end
	}
	if said == "endless" {
		const more = `data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"and "}` + "\n\n"
		backendtest.Endless(w, r, more, more)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range append([]string{started}, strings.Fields(events)...) {
		_, _ = fmt.Fprintf(w, "data: {\"type\":\"%s}\n\n", e) // the test fails on what is missing
	}
}
