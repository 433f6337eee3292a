package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
)

// answers is a server that knows a few addresses.
func answers(t *testing.T) *client.Client {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, body := range map[string]string{
		"GET /v1/agents":                  `{"agents":[{"name":"demo","backend":"scripted","tools":["clock"],"new":1}]}`,
		"GET /v1/requests/{id}":           `{"requestId":"req_1","threadId":"thr_1","agentId":"demo","owner":"dev","index":2,"status":"done","createdAt":"2026-01-01T00:00:00Z","usage":{"inputTokens":3,"outputTokens":4}}`,
		"GET /v1/threads":                 `{"threads":[{"threadId":"thr_1","agentId":"demo","owner":"dev","title":"hello","requests":3,"lastRequestId":"req_1","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}],"nextCursor":"x y"}`,
		"GET /v1/threads/{id}":            `{"threadId":"thr_1","agentId":"demo","owner":"dev","requests":3,"lastRequestId":"req_1","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`,
		"GET /v1/threads/{id}/messages":   `{"messages":[{"requestId":"req_1","role":"user","input":"hello","at":"2026-01-01T00:00:00Z"},{"requestId":"req_1","role":"assistant","content":[{"type":"text","text":"hi"}],"at":"2026-01-01T00:00:00Z"}]}`,
		"POST /v1/requests/{id}/abort":    `{"requestId":"req_1","status":"aborting"}`,
		"DELETE /v1/threads/thr_1":        ``,
		"GET /v1/threads/thr_garbage":     `<html>`,
		"GET /v1/requests/req_%2F..%2Fup": `{"requestId":"escaped","createdAt":"2026-01-01T00:00:00Z"}`,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer ak_key" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Header().Set("X-Query", r.URL.RawQuery)
			_, _ = fmt.Fprint(w, body)
		})
	}
	return serve(t, mux)
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	c, ctx := answers(t), t.Context()

	agents, err := c.Agents(ctx)
	if err != nil || len(agents) != 1 || agents[0].Name != "demo" || agents[0].Tools[0] != "clock" {
		t.Errorf("agents: %+v, %v", agents, err)
	}
	request, err := c.Request(ctx, "req_1")
	if err != nil || request.Status != "done" || request.Usage.OutputTokens != 4 || request.Index != 2 {
		t.Errorf("request: %+v, %v", request, err)
	}
	threads, err := c.Threads(ctx, client.Page{Limit: 5, Cursor: "a b"})
	if err != nil || threads.Threads[0].Title != "hello" || threads.NextCursor != "x y" {
		t.Errorf("threads: %+v, %v", threads, err)
	}
	thread, err := c.Thread(ctx, "thr_1")
	if err != nil || thread.Requests != 3 {
		t.Errorf("thread: %+v, %v", thread, err)
	}
	messages, err := c.Messages(ctx, "thr_1", client.Page{})
	if err != nil || messages.Messages[0].Input.Text() != "hello" || messages.Messages[1].Content[0].Text != "hi" {
		t.Errorf("messages: %+v, %v", messages, err)
	}
	if err := c.Abort(ctx, "req_1"); err != nil {
		t.Errorf("abort: %v", err)
	}
	if err := c.DeleteThread(ctx, "thr_1"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestQuestionsThatFail(t *testing.T) {
	t.Parallel()
	c := answers(t)
	if _, err := c.Thread(t.Context(), "thr_garbage"); err == nil || !strings.Contains(err.Error(), "is "+"http://127.0.0.1") {
		t.Errorf("an answer that is not JSON: %v", err)
	}
	if err := c.DeleteThread(t.Context(), "thr_2"); err == nil {
		t.Error("a route that does not exist: no error")
	}
	anonymous := client.New("http://127.0.0.1:1", "")
	if _, err := anonymous.Agents(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a server that is not there: %v", err)
	}
}

func TestAnIDStaysOnePartOfThePath(t *testing.T) {
	t.Parallel()
	got, err := answers(t).Request(t.Context(), "req_/../up")
	if err != nil || got.RequestID == "" {
		t.Errorf("got %+v, %v (%s)", got, err, apierr.CodeOf(err))
	}
}
