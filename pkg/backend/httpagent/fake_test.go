package httpagent_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

// asked is what the agent under test reads of a turn.
type asked struct {
	Session  string `json:"session"`
	Attempt  int    `json:"attempt"`
	Messages []struct {
		Role    string `json:"role"`
		Content []struct {
			Type    string `json:"type"`
			Text    string `json:"text"`
			Ref     string `json:"ref"`
			Status  string `json:"status"`
			Content string `json:"content"`
		} `json:"content"`
	} `json:"messages"`
}

// said is the text of the last user's message, and result the content of a tool result at the end.
func (a asked) said() (said, result string) {
	for _, m := range a.Messages {
		result = ""
		for _, c := range m.Content {
			switch {
			case m.Role == "user":
				said = c.Text
			case c.Type == "tool_result":
				result = strings.TrimSpace(c.Ref + " " + c.Status + " " + c.Content)
			}
		}
	}
	return said, result
}

// agent is an agent of the contract whose answers depend on what the user has said.
func agent(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a asked
		if err := json.UnmarshalRead(r.Body, &a); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, r, a)
	}))
	t.Cleanup(server.Close)
	return server
}

func answer(w http.ResponseWriter, r *http.Request, a asked) {
	said, result := a.said()
	chunks := map[string]string{
		"text":     `{"type":"text","delta":"Hel"} {"type":"text","delta":"lo"} END`,
		"thinking": `{"type":"thinking","delta":"hm"} {"type":"text","delta":"ok"} END`,
		"call":     `{"type":"tool_call","id":"a","name":"clock","args":{"zone":"UTC"}} END`,
		"calls":    `{"type":"tool_call","id":"a","name":"clock"} {"type":"tool_call","id":"b","name":"clock","delta":"{}"} END`,
		"tools": `{"type":"tool_started","id":"t","name":"read"} {"type":"tool_progress","id":"t","delta":"…"}
			{"type":"tool_ended","id":"t","content":"A"} {"type":"step"} {"type":"text","delta":"done"} END`,
		"ask":   `{"type":"approval","id":"x","name":"deploy","args":{"to":"prod"}} {"type":"question","id":"y","question":"when?"} END`,
		"later": `{"type":"error","message":"no capacity","retryable":true}`,
		"never": `{"type":"error","message":"no such customer"}`,
		"cut":   `{"type":"text","delta":"half"}`,
	}[said]
	switch {
	case said == "full":
		w.Header().Set("Retry-After", "0.01")
		http.Error(w, `{"error":{"message":"busy"}}`, http.StatusServiceUnavailable)
		return
	case said == "refused":
		http.Error(w, `{"error":{"message":"unknown\ncustomer"}}`, http.StatusBadRequest)
		return
	case result != "":
		chunks = fmt.Sprintf(`{"type":"text","delta":%q} END`, "it is "+result)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	send := func(line string) {
		_, _ = fmt.Fprintln(w, line) // the test fails on what is missing
		w.(http.Flusher).Flush()
	}
	send(fmt.Sprintf(`{"type":"session","session":"s-%s"}`, said))
	for n := 0; said == "endless" && n < 600 && r.Context().Err() == nil; n++ {
		send(`{"type":"text","delta":"and "}`)
		select {
		case <-r.Context().Done():
		case <-time.After(40 * time.Millisecond):
		}
	}
	chunks = strings.ReplaceAll(chunks, "END", `{"type":"end","usage":{"inputTokens":3,"outputTokens":2},"model":"m1"}`)
	for values := jsontext.NewDecoder(strings.NewReader(chunks)); ; {
		value, err := values.ReadValue()
		if err != nil {
			return
		}
		send(string(value))
	}
}

// archive is one file of JSON in a form that people read.
func archive(name string, data []byte) *txtar.Archive {
	value := jsontext.Value(data)
	_ = value.Indent(jsontext.WithIndent("  ")) // the golden file shows what is not JSON
	return &txtar.Archive{Files: []txtar.File{{Name: name, Data: append(value, '\n')}}}
}
