package aisdk_test

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

// body is what the agent under test reads of a turn.
type body struct {
	ID       string `json:"id"`
	Messages []struct {
		Role  string `json:"role"`
		Parts []struct {
			Text   string          `json:"text"`
			State  string          `json:"state"`
			Output json.RawMessage `json:"output"`
		} `json:"parts"`
	} `json:"messages"`
}

// agent is an agent whose answer depends on what the user has said.
func agent(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in body
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if err := jsonv2.UnmarshalRead(r.Body, &in); err != nil || in.ID == "" || len(in.Messages) == 0 {
			http.Error(w, "no messages", http.StatusBadRequest)
			return
		}
		answer(w, r, in)
	}))
	t.Cleanup(server.Close)
	return server
}

// chunks writes a stream of chunks.
func chunks(w http.ResponseWriter, list ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, c := range list {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", c) // the test fails on what is missing
	}
	w.(http.Flusher).Flush()
}

func says(text string) []string {
	return []string{`{"type":"text-start","id":"0"}`, fmt.Sprintf(`{"type":"text-delta","id":"0","delta":%q}`, text), `{"type":"text-end","id":"0"}`}
}

func calls(id, name string) []string {
	return []string{
		fmt.Sprintf(`{"type":"tool-input-start","toolCallId":%q,"toolName":%q}`, id, name),
		fmt.Sprintf(`{"type":"tool-input-available","toolCallId":%q,"toolName":%q,"input":{}}`, id, name),
	}
}

const (
	begin = `{"type":"start","messageId":"m1"}`
	end   = `{"type":"finish","finishReason":"stop","messageMetadata":{"model":"m","totalUsage":{"inputTokens":3,"outputTokens":2}}}`
	over  = "[DONE]"
)

func answer(w http.ResponseWriter, r *http.Request, in body) {
	last := in.Messages[len(in.Messages)-1]
	said := last.Parts[len(last.Parts)-1]
	if said.Text == "endless" {
		const more = `data: {"type":"text-delta","id":"0","delta":"and "}` + "\n\n"
		backendtest.Endless(w, r, `data: {"type":"text-start","id":"0"}`+"\n\n"+more, more)
		return
	}
	list := map[string][]string{
		"text": says("Hello"), "thinking": append([]string{
			`{"type":"reasoning-start","id":"h"}`, `{"type":"reasoning-delta","id":"h","delta":"hm"}`, `{"type":"reasoning-end","id":"h"}`,
		}, says("ok")...),
		"call": calls("a", "clock"), "calls": append(calls("a", "clock"), calls("b", "clock")...),
		"tools": append(append(calls("t", "read"), `{"type":"tool-output-available","toolCallId":"t","output":"A"}`), says("done")...),
		"later": {`{"type":"message-metadata","messageMetadata":{"error":{"retryable":true}}}`, `{"type":"error","errorText":"no capacity"}`},
		"never": {`{"type":"error","errorText":"no such customer"}`},
	}[said.Text]
	if said.State == "output-available" {
		list = says("it is " + strings.Trim(string(said.Output), `"`))
	}
	chunks(w, append(append([]string{begin}, list...), end, over)...)
}
