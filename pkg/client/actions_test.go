package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
)

// background is a server of one request that was started in the background, and waits for an approval.
func background() http.Handler {
	mux := http.NewServeMux()
	for pattern, body := range map[string]string{
		"POST /v1/agents/demo/requests": `{"requestId":"req_1","threadId":"thr_1","agentId":"demo","status":"queued"}`,
		"GET /v1/requests/req_1":        `{"requestId":"req_1","threadId":"thr_1","agentId":"demo","owner":"dev","index":0,"status":"done","createdAt":"2026-01-01T00:00:00Z"}`,
		"GET /v1/actions":               `{"actions":[{"actionId":"act_1","kind":"approval","threadId":"thr_1","requestId":"req_1","agentId":"demo","payload":{"name":"calculator"},"at":"2026-01-01T00:00:00Z"}]}`,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) })
	}
	mux.Handle("GET /v1/requests/req_1/stream", &gateway{log: transcript(2)})
	return mux
}

// bodies is a handler that keeps what was posted to next.
type bodies struct {
	next http.Handler
	all  []string
}

func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body) // a test fails on what is missing
		b.all = append(b.all, string(body))
	}
	b.next.ServeHTTP(w, r)
}

func TestActionsAreResolvedByARequestOnTheirThread(t *testing.T) {
	t.Parallel()
	server := &bodies{next: background()}
	c, ctx := serve(t, server), t.Context()
	for _, test := range []struct {
		name    string
		resolve func() (client.Started, error)
		want    string
	}{
		{"an approval", func() (client.Started, error) { return c.Approve(ctx, requestID, "act_1") }, `{"actionId":"act_1","status":"success"}`},
		{
			"a denial with a reason",
			func() (client.Started, error) { return c.Deny(ctx, requestID, "act_1", "no") },
			`{"actionId":"act_1","status":"denied","error":"no"}`,
		},
		{
			"an answer",
			func() (client.Started, error) { return c.Answer(ctx, requestID, "act_1", []byte(`{"a":1}`)) },
			`{"actionId":"act_1","status":"success","result":{"a":1}}`,
		},
	} {
		server.all = nil
		started, err := test.resolve()
		want := []string{`{"messages":[],"threadId":"thr_1","context":{"actionResults":[` + test.want + `]}}`}
		if err != nil || started.RequestID != requestID || !slices.Equal(server.all, want) {
			t.Errorf("%s: got %+v, %v and %q, want %q", test.name, started, err, server.all, want)
		}
	}
}

// asking is a server whose first request waits for two actions, and whose second one ends.
type asking struct{ requests int }

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests++
	log := transcript(2)
	if a.requests == 1 {
		done := log[len(log)-1]
		end := done.Body.(event.Done)
		end.FinishReason = event.FinishActionRequired
		for i, id := range []string{"act_1", "act_2"} {
			action := done
			action.ID, action.Body = event.NewCursor("one", uint64(20+i)), event.Continuation{ActionID: id, Kind: event.ContinueApproval}
			log = append(log, action)
		}
		done.ID, done.Body = event.NewCursor("one", 30), end
		log = append(slices.Delete(log, len(log)-3, len(log)-2), done)
	}
	(&gateway{log: log}).ServeHTTP(w, r)
}

func TestARunResolvesItsActions(t *testing.T) {
	t.Parallel()
	server := &bodies{next: &asking{}}
	c := serve(t, server)
	var decided []string
	decide := func(_ context.Context, action event.Continuation) (event.ActionResult, error) {
		decided = append(decided, action.ActionID)
		return event.ActionResult{Status: event.ActionSuccess}, nil
	}
	events, err := collect(c.Run(t.Context(), "demo", hello, client.StreamOptions{}, decide))
	if err != nil {
		t.Fatal(err)
	}
	if last, ok := events[len(events)-1].Body.(event.Done); !ok || last.FinishReason != event.FinishStop {
		t.Errorf("got %+v at the end, want done", events[len(events)-1])
	}
	const results = `[{"actionId":"act_1","status":"success"},{"actionId":"act_2","status":"success"}]`
	if len(server.all) != 2 || !strings.Contains(server.all[1], results) || !slices.Equal(decided, []string{"act_1", "act_2"}) {
		t.Errorf("decided %q and sent %q", decided, server.all)
	}
}

func TestARunEndsWithTheErrorOfADecision(t *testing.T) {
	t.Parallel()
	failed := errors.New("the terminal is closed")
	c := serve(t, &asking{})
	decide := func(context.Context, event.Continuation) (event.ActionResult, error) {
		return event.ActionResult{}, failed
	}
	if _, err := collect(c.Run(t.Context(), "demo", hello, client.StreamOptions{}, decide)); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}
