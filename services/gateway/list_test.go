package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway"
)

// endless is a history in which every session has events without end.
type endless struct {
	pages atomic.Uint64 // that were read
	gate  chan struct{} // a page waits until it is closed
}

func (h *endless) page(ctx context.Context, _ []byte) (any, error) {
	n := h.pages.Add(1)
	select {
	case <-h.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	lines, err := event.Append(nil, event.Event{
		ID: event.NewCursor("x", n), RequestID: "req_1", Time: time.Now(),
		Body: event.Input{ThreadID: "t", AgentID: "demo", Messages: []event.InputMessage{event.UserText("hello")}},
	})
	frame := historyapi.Frame{Incarnation: "x", First: n, Names: []event.Name{event.NameInput}, Lines: string(lines) + "\n"}
	return historyapi.ThreadFramePage{
		Requests: []historyapi.RequestFrames{{RequestID: "req_1", Frames: []historyapi.Frame{frame}}}, NextCursor: "more",
	}, err
}

// startEndless starts a gateway with such a history, on which a principal reads so many lists at one time, and returns the
// path of a session's events.
func startEndless(t *testing.T, lists int) (b *bench, h *endless, path string) {
	t.Helper()
	b, h = startOn(t, bustest.NewServer(t), &archive{}, func(d *gateway.Deps) { d.Config.Gateway.Limits.Lists = lists }), &endless{gate: make(chan struct{})}
	verbs := b.archive.verbs()
	verbs[historyapi.VerbThreadFrames] = h.page
	b.background(func(ctx context.Context) error { return b.bus.Serve(ctx, historyapi.Service, verbs) })
	made := b.post("/api/v1/sessions/create", `{}`)
	_, rest, _ := strings.Cut(made.body, `"sessionId":"`)
	id, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("create a session: %d %s", made.status, made.body)
	}
	return b, h, "/api/v1/sessions/events?sessionId=" + id
}

func TestAListReadsNoFurtherThanItsPage(t *testing.T) {
	t.Parallel()
	b, h, path := startEndless(t, 4)
	close(h.gate)
	a := b.get(path + "&limit=2&offset=3")
	if a.status != http.StatusOK || strings.Count(a.body, `"user_message"`) != 2 || !strings.Contains(a.body, `"hasMore":true`) {
		t.Errorf("got %d %.200s", a.status, a.body)
	}
	if n := h.pages.Load(); n > 10 {
		t.Errorf("%d pages were read for the first five events", n)
	}
}

func TestListsOfOnePrincipalAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4
	b, h, path := startEndless(t, most)
	var all sync.WaitGroup
	for range most {
		all.Go(func() { b.get(path + "&limit=1") })
	}
	b.eventually("as many lists are read as may be", func() bool { return h.pages.Load() == most })
	a := b.get(path + "&limit=1")
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.HasPrefix(a.body, `{"error":`) {
		t.Errorf("one more: got %d %v %s, want 429 in Tarko's shape", a.status, a.header, a.body)
	}
	_, id, _ := strings.Cut(path, "sessionId=")
	for _, other := range []answer{
		b.get("/v1/threads/" + id + "/messages"), b.get("/v1/threads/" + id + "/events"),
		b.get("/api/v1/sessions/events/latest?sessionId=" + id), b.post("/api/v1/sessions/share", `{"sessionId":"`+id+`"}`),
	} {
		if other.status != http.StatusTooManyRequests {
			t.Errorf("one of another kind: got %d %s, want 429", other.status, other.body)
		}
	}
	close(h.gate)
	all.Wait()
	if a := b.get(path + "&limit=1"); a.status != http.StatusOK {
		t.Errorf("afterwards: got %d %s", a.status, a.body)
	}
}

// TestListsOfAllPrincipalsTogetherAreBounded lets one principal take every place of the process for lists.
func TestListsOfAllPrincipalsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	const places = 8
	b, h, path := startEndless(t, 2*places)
	var all sync.WaitGroup
	for range places {
		all.Go(func() { b.get(path + "&limit=1") })
	}
	b.eventually("every place is taken", func() bool { return h.pages.Load() == places })
	a := b.get(path + "&limit=1")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "too many lists") {
		t.Errorf("one more: got %d %v %s, want 503", a.status, a.header, a.body)
	}
	if n := h.pages.Load(); n != places {
		t.Errorf("%d pages were read, want %d", n, places)
	}
	close(h.gate)
	all.Wait()
	if a := b.get(path + "&limit=1"); a.status != http.StatusOK {
		t.Errorf("afterwards: got %d %s", a.status, a.body)
	}
}
