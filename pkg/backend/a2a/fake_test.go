package a2a_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	jsonv2 "github.com/go-json-experiment/json"
)

const card = `{"name":"fake","version":"1","supportedInterfaces":[{"url":"/old","protocolBinding":"JSONRPC","protocolVersion":"0.3"},` +
	`{"url":"/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true}}`

// call is what the agent under test reads of a call.
type call struct {
	Method string `json:"method"`
	Params struct {
		ID      string `json:"id"`
		Message struct {
			TaskID string `json:"taskId"`
			Parts  []struct {
				Text string          `json:"text"`
				Data json.RawMessage `json:"data"`
			} `json:"parts"`
		} `json:"message"`
	} `json:"params"`
}

// agent is an agent, by JSON-RPC, whose task depends on what the user has said.
func agent(t *testing.T) *httptest.Server {
	t.Helper()
	return serve(t, answer)
}

// serve is an agent whose calls are answered by a function.
func serve(t *testing.T, answer func(http.ResponseWriter, *http.Request, call)) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, card) // the test fails on what is missing
			return
		}
		var c call
		if err := jsonv2.UnmarshalRead(r.Body, &c); err != nil || r.Header.Get("A2A-Version") != "1.0" || r.URL.Path != "/rpc" {
			t.Errorf("got the call %+v at %s with version %q, %v", c, r.URL.Path, r.Header.Get("A2A-Version"), err)
		}
		answer(w, r, c)
	}))
	t.Cleanup(server.Close)
	return server
}

// updates writes a stream of updates.
func updates(w http.ResponseWriter, list ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, u := range list {
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}\n\n", u) // as above
	}
	w.(http.Flusher).Flush()
}

const submitted = `{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_SUBMITTED"}}}`

func artifact(text string) string {
	return fmt.Sprintf(`{"artifactUpdate":{"taskId":"t1","contextId":"c1","append":true,"artifact":{"artifactId":"a","parts":[{"text":%q}]}}}`, text)
}

func ended(state, text string) string {
	return fmt.Sprintf(`{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_%s","message":{"messageId":"m-end","role":"ROLE_AGENT","parts":[{"text":%q}]}},`+
		`"metadata":{"usage":{"inputTokens":3,"outputTokens":2}}}}`, state, text)
}

func working(id, message string) string {
	return fmt.Sprintf(`{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING","message":{"messageId":%q,"role":"ROLE_AGENT",%s}}}}`, id, message)
}

func progress(kind, data string) string {
	return working(kind, fmt.Sprintf(`"parts":[{"data":%s}],"metadata":{"agentbus":{"kind":%q}}`, data, kind))
}

func answer(w http.ResponseWriter, r *http.Request, c call) {
	if len(c.Params.Message.Parts) == 0 {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"id":"t1","status":{"state":"TASK_STATE_CANCELED"}}}`)
		return
	}
	said := c.Params.Message.Parts[len(c.Params.Message.Parts)-1].Text
	const later = `{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_FAILED"},"metadata":{"agentbus":{"retryable":true}}}}`
	switch {
	case said == "endless":
		more := "data: {\"result\":" + artifact("and ") + "}\n\n"
		backendtest.Endless(w, r, "data: {\"result\":"+submitted+"}\n\n"+more, more)
	case said == "text":
		updates(w, submitted, artifact("Hello"), ended("COMPLETED", ""))
	case said == "thinking":
		updates(w, submitted, working("m1", `"parts":[{"text":"hm"}]`), artifact("ok"), ended("COMPLETED", ""))
	case said == "tools":
		updates(w, submitted, progress("tool_call", `{"toolCallId":"t","tool":"read","arguments":{}}`),
			progress("tool_result", `{"toolCallId":"t","status":"success","summary":"A"}`), artifact("done"), ended("COMPLETED", ""))
	case said == "call":
		updates(w, submitted, ended("INPUT_REQUIRED", "When?"))
	case said == "later":
		updates(w, submitted, later)
	case said == "never":
		updates(w, submitted, ended("FAILED", "no such customer"))
	case c.Params.Message.TaskID == "t1":
		updates(w, strings.Replace(submitted, "SUBMITTED", "INPUT_REQUIRED", 1), artifact("it is "+said), ended("COMPLETED", ""))
	}
}
