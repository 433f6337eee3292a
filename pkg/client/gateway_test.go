package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
)

const (
	requestID = "req_1"
	threadID  = "thr_1"
	gone      = -1 // a cut before the first byte of the response
	whole     = 1 << 20
)

// gateway is a server of one request whose log is complete. It cuts connections as the test says.
type gateway struct {
	log         []event.Event
	incarnation func(connection int) string // nil = always the same
	cut         func(connection int) int    // after how many bytes of the body; whole = never
	cleanCut    bool                        // the body then ends as if all were well

	mu          sync.Mutex
	connections int
	runs        map[string]bool // by idempotency key
	cursors     []string        // of the connections that resumed
	include     []string
}

// transcript is the log of a request with text of size bytes.
func transcript(size int) []event.Event {
	block := func(stage event.Stage) event.Block {
		return event.Block{MessageID: "msg_1", BlockID: "b0", Stage: stage}
	}
	bodies := []event.Body{
		event.Metadata{ThreadID: threadID, AgentID: "demo"},
		event.Text{Block: block(event.StageStart)},
		event.Text{Block: block(event.StageDelta), Delta: strings.Repeat("é", size/2)},
		event.Text{Block: block(event.StageDelta), Delta: "world"},
		event.Text{Block: block(event.StageStop), Text: strings.Repeat("é", size/2) + "world"},
		event.Done{MessageID: "msg_1", ThreadID: threadID, Content: []event.Content{}, FinishReason: event.FinishStop},
	}
	var log []event.Event
	for i, body := range bodies {
		log = append(log, event.Event{
			ID:        event.NewCursor("one", uint64(2*i)), // every second n is an event that the client did not ask for
			RequestID: requestID, Time: time.Unix(int64(i), 0), Body: body,
		})
	}
	return log
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	connection := g.note(r)
	limit := whole
	if g.cut != nil {
		limit = g.cut(connection)
	}
	if limit == gone {
		panic(http.ErrAbortHandler)
	}
	incarnation := "one"
	if g.incarnation != nil {
		incarnation = g.incarnation(connection)
	}
	from := uint64(0)
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		inc, n, err := event.ParseCursor(last)
		if err != nil {
			http.Error(w, "bad cursor", http.StatusBadRequest)
			return
		}
		if inc == incarnation {
			from = n + 1
		}
	}
	body := g.body(incarnation, from)
	if body == "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Request-Id", requestID)
	w.Header().Set("X-Thread-Id", threadID)
	if limit >= len(body) {
		_, _ = fmt.Fprint(w, body)
		return
	}
	_, _ = fmt.Fprint(w, body[:limit])
	if g.cleanCut {
		return
	}
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func (g *gateway) note(r *http.Request) (connection int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Method == http.MethodPost {
		if g.runs == nil {
			g.runs = map[string]bool{}
		}
		g.runs[r.Header.Get("Idempotency-Key")] = true
	}
	g.cursors = append(g.cursors, r.Header.Get("Last-Event-ID"))
	g.include = append(g.include, r.URL.Query().Get("include"))
	g.connections++
	return g.connections - 1
}

// body is the response from event n on, "" when the log ends before it.
func (g *gateway) body(incarnation string, from uint64) string {
	body := []byte("retry: 1\n\n: heartbeat\n\n")
	none := len(body)
	for _, e := range g.log {
		_, n, _ := event.ParseCursor(string(e.ID))
		if n < from {
			continue
		}
		e.ID = event.NewCursor(incarnation, n)
		line, err := event.Encode(e)
		if err == nil {
			body, err = sse.Append(body, string(e.ID), string(e.Body.Name()), line)
		}
		if err != nil {
			panic(err)
		}
	}
	if len(body) == none {
		return ""
	}
	return string(body)
}

// serve starts g and returns a client that does not wait long.
func serve(t testing.TB, g http.Handler) *client.Client {
	t.Helper()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	c := client.New(server.URL+"/", "ak_key")
	client.SetWait(c, time.Millisecond)
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// text is what a reader must have got, for comparison.
func text(log []event.Event) string {
	var b strings.Builder
	for _, e := range log {
		_, n, _ := event.ParseCursor(string(e.ID))
		b.WriteString(strconv.FormatUint(n, 10) + " ")
		if t, ok := e.Body.(event.Text); ok {
			b.WriteString(t.Delta + t.Text)
		}
		b.WriteString(string(e.Body.Name()) + "\n")
	}
	return b.String()
}
