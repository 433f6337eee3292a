package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// say is a request on a thread.
func say(threadID string, lines ...string) string {
	r := event.AgentRequest{ThreadID: threadID, Messages: []event.InputMessage{event.UserText(strings.Join(lines, "\n"))}}
	return requestBody(r)
}

// TestAProgramFollowsAThread watches a thread from its start while requests come in, until it is deleted.
func TestAProgramFollowsAThread(t *testing.T) {
	t.Parallel()
	threadID := post(t, "demo", prompt("/say one")).ThreadID
	var answers []string
	var cursor event.Cursor
	for e, err := range client.New(base, "").FollowThread(t.Context(), threadID, client.ThreadOptions{
		FromStart: true, At: func(c event.Cursor) { cursor = c },
	}) {
		if err != nil {
			t.Fatal(err)
		}
		d, ok := e.Body.(event.Done)
		if !ok {
			continue
		}
		switch answers = append(answers, answerText(d)); len(answers) {
		case 1:
			post(t, "demo", say(threadID, "/say two"))
		case 2:
			call(t.Context(), t, http.MethodDelete, "/v1/threads/"+threadID, "")
		}
	}
	if !slices.Equal(answers, []string{"one", "two"}) || !strings.Contains(string(cursor), "-1.") {
		t.Errorf("got %v, and the cursor %s", answers, cursor)
	}
}

func TestABusyThreadRefusesASecondRequest(t *testing.T) {
	t.Parallel()
	tr := started(t, "demo", prompt("/stream 10000 50"), 2)
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", say(tr.ThreadID, "/say me too"))
	if got := response.Header.Get("X-Request-Id"); got != tr.RequestID {
		t.Errorf("the refusal names request %q, want the running %q", got, tr.RequestID)
	}
	if e := wantFault(t, response, http.StatusConflict, apierr.ThreadBusy); !e.Retryable {
		t.Error("a busy thread is worth a retry")
	}
	call(t.Context(), t, http.MethodPost, path("/v1/requests/%s/abort", tr.RequestID), "")
	resume(t, tr.RequestID, "")
	if next := post(t, "demo", say(tr.ThreadID, "/say now")); answerText(next.done(t)) != "now" {
		t.Errorf("got %s", next.shape())
	}
}

func TestAThreadShowsWhatWasWrittenAtOnce(t *testing.T) {
	t.Parallel()
	first := post(t, "demo", prompt("/say one"))
	for i, word := range []string{"two", "three", "four"} {
		post(t, "demo", say(first.ThreadID, "/say "+word))
		messages := get[historyapi.MessagePage](t, path("/v1/threads/%s/messages", first.ThreadID)).Messages
		if len(messages) != 2*(i+2) {
			t.Fatalf("got %d messages, want %d", len(messages), 2*(i+2))
		}
		last := messages[len(messages)-1]
		if last.Role != "assistant" || len(last.Content) != 1 || last.Content[0].Text != word {
			t.Errorf("got %+v, want the answer %q", last, word)
		}
	}
	thread := get[historyapi.Thread](t, path("/v1/threads/%s", first.ThreadID))
	if thread.Requests != 4 || thread.AgentID != "demo" || !strings.HasPrefix(thread.Title, "/say one") {
		t.Errorf("got %+v, want a thread of four requests", thread)
	}
	found := false
	for _, listed := range get[historyapi.ThreadPage](t, "/v1/threads?limit=200").Threads {
		found = found || listed.ThreadID == first.ThreadID
	}
	if !found {
		t.Error("the thread is not listed")
	}
}

func TestThreadEventsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	tr := post(t, "demo", prompt("/stream 30 0", "/say end"))
	var texts int
	cursor := ""
	for pages := 0; ; pages++ {
		page := get[historyapi.EventPage](t, path("/v1/threads/%s/events?type=text,done&limit=10&cursor=%s", tr.ThreadID, cursor))
		for _, raw := range page.Events {
			e, err := event.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			if name := e.Body.Name(); name != event.NameText && name != event.NameDone {
				t.Fatalf("got a %s event", name)
			}
			texts++
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
		if pages > 20 {
			t.Fatal("the pages do not end")
		}
	}
	if want := len(find[event.Text](tr)) + 1; texts != want {
		t.Errorf("got %d events, want %d", texts, want)
	}
	wantFault(t, call(t.Context(), t, http.MethodGet, path("/v1/threads/%s/events?since=yesterday", tr.ThreadID), ""), 400, apierr.InvalidMessageFormat)
}

func TestDeletedThreadIsNotFound(t *testing.T) {
	t.Parallel()
	tr := post(t, "demo", prompt("/say secret"))
	target := path("/v1/threads/%s", tr.ThreadID)
	response := call(t.Context(), t, http.MethodDelete, target, "")
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("got %s: %s", response.Status, readAll(t, response))
	}
	for _, gone := range []string{target, target + "/messages", target + "/events"} {
		wantFault(t, call(t.Context(), t, http.MethodGet, gone, ""), http.StatusNotFound, apierr.ThreadNotFound)
	}
	wantFault(t, call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", say(tr.ThreadID, "/say x")), 404, apierr.ThreadNotFound)
	if response := call(t.Context(), t, http.MethodGet, path("/v1/requests/%s/stream", tr.RequestID), ""); response.StatusCode != http.StatusNotFound {
		t.Errorf("the request of a deleted thread answers %s", response.Status)
	}
}

func TestTwoScreensFollowAThreadAcrossRequests(t *testing.T) {
	t.Parallel()
	first := post(t, "demo", prompt("/say one"))
	target := path("/v1/threads/%s/stream", first.ThreadID)
	var screens []*http.Response
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range 2 {
		screens = append(screens, call(ctx, t, http.MethodGet, target, ""))
	}
	second := post(t, "demo", say(first.ThreadID, "/say two"))
	third := post(t, "demo", say(first.ThreadID, "/say three"))
	want := len(second.Events) + len(third.Events) + 2 // and what the user said, twice
	for i, screen := range screens {
		seen := readStream(t, screen, want)
		if got := find[event.Done](seen); len(got) != 2 || len(find[event.Input](seen)) != 2 {
			t.Errorf("screen %d saw %s", i, seen.shape())
		}
	}
}

func TestAThreadStreamResumes(t *testing.T) {
	t.Parallel()
	first := post(t, "demo", prompt("/say one"))
	second := post(t, "demo", say(first.ThreadID, "/stream 20 0", "/say two"))
	target := path("/v1/threads/%s/stream", first.ThreadID)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	events := len(first.Events) + len(second.Events) + 2 // and what the user said, twice
	whole := readStream(t, call(ctx, t, http.MethodGet, target+"?from=start", ""), events)
	for _, cut := range []int{1, 5, len(first.Events) + 1, len(first.Events) + 4} {
		head := readStream(t, call(ctx, t, http.MethodGet, target+"?from=start", ""), cut)
		tail := readStream(t, call(ctx, t, http.MethodGet, target, "", header{"Last-Event-ID", head.LastID}), events-cut)
		if !slices.Equal(slices.Concat(head.Lines, tail.Lines), whole.Lines) {
			t.Errorf("cut after %d events: the parts do not make the whole", cut)
		}
	}
}
