package langgraph_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	jsonv2 "github.com/go-json-experiment/json"
)

// server is an Agent Server whose runs depend on what the user has said.
type server struct {
	*httptest.Server

	mu   sync.Mutex
	runs []sent // in their order
	gets []string
}

// sent is what the server reads of a run.
type sent struct {
	AssistantID string `json:"assistant_id"`
	Input       struct {
		Messages []struct {
			Type    string          `json:"type"`
			ID      string          `json:"id"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	} `json:"input"`
	Command struct {
		Resume json.RawMessage `json:"resume"`
	} `json:"command"`
	Metadata json.RawMessage `json:"metadata"`

	thread string
}

func (s sent) said() string {
	if len(s.Input.Messages) == 0 {
		return "resumed"
	}
	return strings.Trim(string(s.Input.Messages[len(s.Input.Messages)-1].Content), `"`)
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /assistants/search", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `[{"assistant_id":"a-1","graph_id":"agent"}]`) // the test fails on what is missing
	})
	mux.HandleFunc("POST /threads", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{}`) })
	mux.HandleFunc("POST /threads/{thread}/runs/stream", s.start)
	mux.HandleFunc("GET /threads/{thread}/runs", s.list)
	mux.HandleFunc("GET /threads/{thread}/runs/{run}", s.status)
	mux.HandleFunc("GET /threads/{thread}/runs/{run}/stream", s.join)
	mux.HandleFunc("GET /threads/{thread}/state", s.state)
	mux.HandleFunc("POST /threads/{thread}/runs/{run}/cancel", func(w http.ResponseWriter, r *http.Request) {
		s.note("cancel " + r.PathValue("run"))
		w.WriteHeader(http.StatusAccepted)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets = append(s.gets, what)
}

func (s *server) noted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.gets, ", ")
}

// find returns a run by its id, run-N.
func (s *server) find(id string) sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int
	if _, err := fmt.Sscanf(id, "run-%d", &n); err != nil || n < 1 || n > len(s.runs) {
		return sent{}
	}
	return s.runs[n-1]
}

func (s *server) start(w http.ResponseWriter, r *http.Request) {
	one := sent{thread: r.PathValue("thread")}
	if err := jsonv2.UnmarshalRead(r.Body, &one); err != nil || one.AssistantID != "agent" {
		http.Error(w, `{"detail":"no such assistant"}`, http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.runs = append(s.runs, one)
	id := fmt.Sprintf("run-%d", len(s.runs))
	s.mu.Unlock()
	w.Header().Set("Content-Location", "/threads/"+one.thread+"/runs/"+id)
	if one.said() == "endless" {
		const more = `event: messages` + "\n" + `data: [{"type":"AIMessageChunk","id":"m","content":"and "},{}]` + "\n\n"
		backendtest.Endless(w, r, more, more)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, e := range events(one.said()) {
		if e == "WAIT" {
			_ = http.NewResponseController(w).Flush() // as above
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if e == "CUT" {
			_ = http.NewResponseController(w).Flush() // the test fails on what is missing
			panic(http.ErrAbortHandler)
		}
		write(w, i, e)
	}
}

// write writes "name data" as an event.
func write(w http.ResponseWriter, i int, e string) {
	name, data, _ := strings.Cut(e, " ")
	_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", i, name, data) // the test fails on what is missing
}

// join sends the events after the last one of the client.
func (s *server) join(w http.ResponseWriter, r *http.Request) {
	after := -1
	if _, err := fmt.Sscanf(r.Header.Get("Last-Event-Id"), "%d", &after); err != nil {
		http.Error(w, "no Last-Event-ID", http.StatusBadRequest)
		return
	}
	said := s.find(r.PathValue("run")).said()
	s.note(fmt.Sprintf("join after %d", after))
	w.Header().Set("Content-Type", "text/event-stream")
	if said == "expired" {
		return
	}
	for i, e := range events(said) {
		if i > after && e != "CUT" {
			write(w, i, e)
		}
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type run struct {
		RunID    string          `json:"run_id"`
		Metadata json.RawMessage `json:"metadata"`
	}
	all := []run{}
	for i, one := range s.runs {
		if one.thread == r.PathValue("thread") {
			all = append([]run{{fmt.Sprintf("run-%d", i+1), one.Metadata}}, all...)
		}
	}
	_ = jsonv2.MarshalWrite(w, all) // as above
}

func (s *server) status(w http.ResponseWriter, r *http.Request) {
	status := "success"
	switch said := s.find(r.PathValue("run")).said(); {
	case said == "never":
		status = "error"
	case said == "later":
		status = "timeout"
	case said == "cut" && !strings.Contains(s.noted(), "join"):
		status = "running"
	}
	_, _ = fmt.Fprintf(w, `{"run_id":%q,"status":%q}`, r.PathValue("run"), status) // as above
}

func (s *server) state(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprint(w, `{"values":{"messages":[{"type":"ai","id":"old","content":"earlier"},{"type":"human","id":"h","content":"x"},`+ // as above
		`{"type":"ai","id":"m1","content":"half and whole","usage_metadata":{"input_tokens":3,"output_tokens":2}}]},`+
		`"metadata":{},"tasks":[{"error":"no such customer","interrupts":[]}]}`)
}

// events are the events of a run.
func events(said string) []string {
	chunk := func(id, rest string) string {
		return fmt.Sprintf(`messages [{"type":"AIMessageChunk","id":%q,%s},{}]`, id, rest)
	}
	whole := func(id, content string) string {
		return fmt.Sprintf(`updates {"agent":{"messages":[{"type":"ai","id":%q,"content":%q,"usage_metadata":{"input_tokens":3,"output_tokens":2},`+
			`"response_metadata":{"model_name":"m1"}}]}}`, id, content)
	}
	return append([]string{`metadata {"run_id":"run-1"}`}, map[string][]string{
		"text":     {chunk("m1", `"content":"Hel"`), chunk("m1", `"content":"lo"`), whole("m1", "Hello")},
		"thinking": {chunk("m1", `"content":"","additional_kwargs":{"reasoning_content":"hm"}`), chunk("m1", `"content":"ok"`), whole("m1", "ok")},
		"tools": {
			chunk("m1", `"content":"","tool_call_chunks":[{"index":0,"id":"t1","name":"read","args":"{\"pa"}]`),
			chunk("m1", `"content":"","tool_call_chunks":[{"index":0,"args":"th\":1}"}]`), whole("m1", ""),
			`messages [{"type":"tool","id":"r1","tool_call_id":"t1","name":"read","content":"A","status":"success"},{}]`,
			chunk("m2", `"content":"done"`), whole("m2", "done"),
		},
		"cut": {chunk("m1", `"content":"half"`), "CUT", chunk("m1", `"content":" and whole"`), whole("m1", "half and whole")},
		"late": {
			`updates {"agent":{"messages":[{"type":"ai","id":"m1","content":"","tool_calls":[{"id":"t1","name":"deploy","args":{}}]}]}}`, "WAIT",
			`updates {"__interrupt__":[{"id":"i1","value":{"action_requests":[{"name":"deploy","args":{}}]}}]}`,
		},
		"resumed": {`messages [{"type":"tool","id":"r1","tool_call_id":"t1","name":"deploy","content":"A"},{}]`},
		"expired": {chunk("m1", `"content":"half"`), "CUT"},
		"never":   {`error {"error":"Error","message":"no\u00a0such\u00a0customer"}`},
	}[said]...)
}
