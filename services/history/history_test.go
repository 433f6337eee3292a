package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/history"
)

func TestAnswersSeeWhatWasWritten(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d database, b *bus.Bus) {
		start(t, b, d.url)
		ask := historyapi.NewClient(b)
		c := conversation{t: t, bus: b, thread: "thr_1"}
		for i := range 20 { // each answer must see the request before it, however far the projection is
			requestID := c.say(fmt.Sprintf("word %d", i))
			thread, err := ask.Thread(t.Context(), ref("thr_1"))
			if err != nil {
				t.Fatal(err)
			}
			if thread.Requests != i+1 || thread.LastRequestID != requestID || thread.Title != "word 0" || thread.Owner != "ada" {
				t.Fatalf("after request %d: got %+v", i, thread)
			}
			transcript, err := ask.Transcript(t.Context(), historyapi.TranscriptQuery{ThreadRef: ref("thr_1"), Before: i + 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(transcript.Requests) != i+1 {
				t.Fatalf("after request %d: got a transcript of %d requests", i, len(transcript.Requests))
			}
			r, err := ask.Request(t.Context(), requestRef(requestID))
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != historyapi.StatusDone || r.Index != i || r.Usage == nil || r.Usage.OutputTokens != 3 || len(r.Terminal) == 0 {
				t.Fatalf("request %d: got %+v", i, r)
			}
		}
		page, err := ask.Threads(t.Context(), historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada"})
		if err != nil || len(page.Threads) != 1 || page.Threads[0].ThreadID != "thr_1" {
			t.Errorf("got threads %+v, %v", page, err)
		}
	})
}

func TestAnswersWaitForTheProjection(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	b := server.Connect(t, "writer")
	c := conversation{t: t, bus: b, thread: "thr_1"}
	c.say("one")
	running := c.begin("two")
	c.run(running, c.talk("two")...)
	start(t, server.Connect(t, "history"), url(t)) // everything has yet to be projected
	ask := historyapi.NewClient(b)

	thread, err := ask.Thread(t.Context(), ref("thr_1"))
	for deadline := time.Now().Add(20 * time.Second); err != nil; thread, err = ask.Thread(t.Context(), ref("thr_1")) {
		if apierr.CodeOf(err) != apierr.Unavailable || time.Now().After(deadline) { // before the service listens
			t.Fatal(err)
		}
	}
	if thread.Requests != 2 || thread.LastRequestID != running {
		t.Errorf("got %+v", thread)
	}
	frames, err := ask.Frames(t.Context(), historyapi.FramesQuery{RequestRef: requestRef(running)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := frames.Frames[len(frames.Frames)-1].Event().Next(), uint64(8); got != want {
		t.Errorf("got %d events of the running request, want %d", got, want)
	}
}

func TestFramesAreTheLog(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	c := conversation{t: t, bus: b, thread: "thr_1"}
	requestID := c.say("hello")
	var want strings.Builder
	for f, err := range b.Read(t.Context(), bus.LogID{Tenant: tenant, RequestID: requestID}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		want.Write(f.Lines)
	}
	var got strings.Builder
	for from := uint64(0); ; {
		page, err := ask.Frames(t.Context(), historyapi.FramesQuery{RequestRef: requestRef(requestID), From: from, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Frames) == 0 {
			break
		}
		for _, f := range page.Frames {
			if f.First != from || f.Incarnation != b.Incarnation() {
				t.Fatalf("got a frame at %d of %s, want %d of %s", f.First, f.Incarnation, from, b.Incarnation())
			}
			got.WriteString(f.Lines)
			from = f.Event().Next()
		}
	}
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want.String())
	}
}

func TestTranscriptHoldsWhatAModelMustKnow(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	c := conversation{t: t, bus: b, thread: "thr_1"}
	c.run(c.begin("one"), append(c.talk("one"),
		event.UsageSoFar{Turns: 1}, event.Summary{Text: "short"}, done(c.thread, "you said one"))...)
	second := c.begin("two")
	transcript, err := historyapi.NewClient(b).Transcript(t.Context(), historyapi.TranscriptQuery{ThreadRef: ref("thr_1"), Before: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(transcript.Requests) != 1 || transcript.Requests[0].RequestID == second {
		t.Fatalf("got %+v, want the first request alone", transcript.Requests)
	}
	var got []string
	for _, text := range transcript.Requests[0].Events {
		e, err := event.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Body.Name()))
	}
	if want := "input metadata text text tool_output usage summary done"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMessagesListTheConversation(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	c := conversation{t: t, bus: b, thread: "thr_1"}
	c.say("one")
	failed := c.begin("two")
	c.run(failed, append(c.talk("two"),
		event.Text{Block: event.Block{BlockID: "b1", Stage: event.StageStop, Discarded: true}, Text: "gone"},
		event.Error{Code: apierr.AgentError, Message: "broken"})...)
	aborted := c.begin("three")
	c.run(aborted, append(c.talk("three"), event.Aborted{Content: []event.Content{{Type: event.ContentText, Text: "half"}}})...)
	c.begin("four")

	want := []string{
		"user: one", "assistant: you said one (stop)", "user: two", "assistant: you said two ()",
		"user: three", "assistant: half ()", "user: four",
	}
	for limit := 1; limit <= 5; limit++ {
		var got []string
		for q := (historyapi.MessagesQuery{ThreadRef: ref("thr_1"), Limit: limit}); ; {
			page, err := ask.Messages(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range page.Messages {
				got = append(got, line(m))
			}
			if q.Cursor = page.NextCursor; q.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d:\n got %q\nwant %q", limit, got, want)
		}
	}
}

func TestMessagesHaveAnImportedConversation(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	c := conversation{t: t, bus: b, thread: "thr_1"}
	text := func(s string) event.InputContent { return event.UserText(s).Content }
	log := c.talk("three")
	input := log[0].(event.Input)
	input.History = []event.HistoryMessage{
		{Role: event.RoleUser, Content: text("one")},
		{ID: "m2", Role: event.RoleAssistant, Content: text("two"), ToolCalls: []event.HistoryCall{{ID: "call_9", Name: "weather"}}},
		{Role: event.RoleTool, ToolCallID: "call_9", Content: text("rain")},
	}
	log[0] = input
	c.run(c.begin("three"), append(log, done(c.thread, "four"))...)
	page, err := historyapi.NewClient(b).Messages(t.Context(), historyapi.MessagesQuery{ThreadRef: ref("thr_1")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range page.Messages {
		got = append(got, line(m))
	}
	if want := []string{"user: one", "assistant: two ()", "user: three", "assistant: four (stop)"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	imported := page.Messages[1]
	if len(imported.Content) != 3 || imported.MessageID != "m2" || imported.Content[1].ToolCallID != "call_9" ||
		imported.Content[2].Status != event.ToolSuccess {
		t.Errorf("got %+v", imported)
	}
}

func line(m historyapi.Message) string {
	if m.Role == event.RoleUser {
		return "user: " + m.Input.Text()
	}
	return fmt.Sprintf("%s: %s (%s)", m.Role, m.Content[0].Text, m.FinishReason)
}

func TestEventsComeInPagesWithoutInternalOnes(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	c := conversation{t: t, bus: b, thread: "thr_1"}
	c.say("one")
	c.say("two")
	want := strings.Repeat("claim input metadata text text text text done ", 2)
	for _, limit := range []int{1, 7, 8, 16, 17} {
		var got strings.Builder
		pages := 0
		for q := (historyapi.EventsQuery{ThreadRef: ref("thr_1"), Limit: limit}); ; pages++ {
			page, err := ask.Events(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range page.Events {
				e, err := event.Decode(text)
				if err != nil {
					t.Fatal(err)
				}
				got.WriteString(string(e.Body.Name()) + " ")
			}
			if q.Cursor = page.NextCursor; q.Cursor == "" {
				break
			}
		}
		if got.String() != want || pages != (16-1)/limit {
			t.Errorf("limit %d: got %d pages of %q, want %d of %q", limit, pages+1, got.String(), (16-1)/limit+1, want)
		}
	}
	page, err := ask.Events(t.Context(), historyapi.EventsQuery{
		ThreadRef: ref("thr_1"), Types: []event.Name{event.NameDone, event.NameToolOutput},
	})
	if err != nil || len(page.Events) != 2 {
		t.Errorf("by type: got %d events, %v, want the 2 done events", len(page.Events), err)
	}
}

func TestDeletedThreadIsNotFoundImmediately(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	c := conversation{t: t, bus: b, thread: "thr_1"}
	requestID := c.say("one")
	if _, err := ask.Thread(t.Context(), ref("thr_1")); err != nil {
		t.Fatal(err)
	}
	c.advance(record.Thread{ThreadID: "thr_1", Owner: "ada", RequestID: requestID, Index: 0, Deleted: true, At: time.Now()})
	_, err := ask.Thread(t.Context(), ref("thr_1"))
	wantCode(t, err, apierr.ThreadNotFound)
	_, err = ask.Messages(t.Context(), historyapi.MessagesQuery{ThreadRef: ref("thr_1")})
	wantCode(t, err, apierr.ThreadNotFound)
	_, err = ask.Events(t.Context(), historyapi.EventsQuery{ThreadRef: ref("thr_1")})
	wantCode(t, err, apierr.ThreadNotFound)
	_, err = ask.Transcript(t.Context(), historyapi.TranscriptQuery{ThreadRef: ref("thr_1"), Before: 1})
	wantCode(t, err, apierr.ThreadNotFound)
	_, err = ask.Request(t.Context(), requestRef(requestID))
	wantCode(t, err, apierr.RequestNotFound)
	_, err = ask.Frames(t.Context(), historyapi.FramesQuery{RequestRef: requestRef(requestID)})
	wantCode(t, err, apierr.RequestNotFound)
}

func TestTenantsAreIsolated(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	c := conversation{t: t, bus: b, thread: "thr_1"}
	requestID := c.say("one")
	_, err := ask.Thread(t.Context(), historyapi.ThreadRef{Tenant: "other", ThreadID: "thr_1"})
	wantCode(t, err, apierr.ThreadNotFound)
	_, err = ask.Request(t.Context(), historyapi.RequestRef{Tenant: "other", RequestID: requestID})
	wantCode(t, err, apierr.RequestNotFound)
	_, err = ask.Thread(t.Context(), ref("thr_unknown"))
	wantCode(t, err, apierr.ThreadNotFound)
}

func TestACursorGivesNoAccessToAnotherThread(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	mine, theirs := conversation{t: t, bus: b, thread: "thr_1"}, conversation{t: t, bus: b, thread: "thr_2"}
	mine.say("mine")
	theirs.say("theirs")
	page, err := ask.Events(t.Context(), historyapi.EventsQuery{ThreadRef: ref("thr_2"), Limit: 1})
	if err != nil || page.NextCursor == "" {
		t.Fatalf("got %v, %v, want a cursor", page, err)
	}
	stolen, err := ask.Events(t.Context(), historyapi.EventsQuery{ThreadRef: ref("thr_1"), Cursor: page.NextCursor})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range stolen.Events {
		if strings.Contains(string(text), "theirs") || strings.Contains(string(text), "thr_2") {
			t.Errorf("got %s of another thread", text)
		}
	}
}

func TestBadQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	c := conversation{t: t, bus: b, thread: "thr_1"}
	c.say("one")
	tests := []struct {
		name, verb string
		question   any
	}{
		{"a cursor of no thread", historyapi.VerbThreads, historyapi.ThreadsQuery{Tenant: tenant, Cursor: "garbage"}},
		{"a cursor of another list", historyapi.VerbMessages, historyapi.MessagesQuery{ThreadRef: ref("thr_1"), Cursor: "eyJsIjoiZXZlbnRzIiwiciI6ImEifQ"}},
		{"a limit below one", historyapi.VerbEvents, historyapi.EventsQuery{ThreadRef: ref("thr_1"), Limit: -1}},
		{"a limit too high", historyapi.VerbEvents, historyapi.EventsQuery{ThreadRef: ref("thr_1"), Limit: 1001}},
		{"too many threads", historyapi.VerbThreads, historyapi.ThreadsQuery{Tenant: tenant, Limit: 201}},
		{"too many frames", historyapi.VerbFrames, historyapi.FramesQuery{RequestRef: requestRef("req"), Limit: 2001}},
		{"too many frames of a thread", historyapi.VerbThreadFrames, historyapi.ThreadFramesQuery{ThreadRef: ref("thr_1"), Limit: 2001}},
		{"a cursor of events for frames", historyapi.VerbThreadFrames, historyapi.ThreadFramesQuery{ThreadRef: ref("thr_1"), Cursor: "eyJsIjoiZXZlbnRzIiwiciI6ImEifQ"}},
		{"a session that is not a token", historyapi.VerbSession, ref("a.b")},
		{"too many sessions", historyapi.VerbSessions, historyapi.ThreadsQuery{Tenant: tenant, Limit: 201}},
		{"a transcript before the start", historyapi.VerbTranscript, historyapi.TranscriptQuery{ThreadRef: ref("thr_1"), Before: -1}},
		{"a thread that is not a token", historyapi.VerbThread, ref("a.b")},
		{"a request that is not a token", historyapi.VerbRequest, requestRef("*")},
		{"something else", historyapi.VerbThread, []int{1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var answer any
			wantCode(t, b.Ask(t.Context(), historyapi.Service, test.verb, test.question, &answer), apierr.InvalidMessageFormat)
		})
	}
}

func TestABadDatabaseAddressIsExplained(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "mysql://x", "history.db", "sqlite:", "sqlite"} {
		_, err := history.New(t.Context(), history.Deps{DatabaseURL: address})
		if err == nil || !strings.Contains(err.Error(), "sqlite:PATH") || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("%q: got %v, want an error with the valid forms", address, err)
		}
	}
}

func TestTwoProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	writer := server.Connect(t, "writer")
	database := pgtest.New(t)
	start(t, server.Connect(t, "history-1"), database)
	start(t, server.Connect(t, "history-2"), database)
	ask := historyapi.NewClient(writer)
	c := conversation{t: t, bus: writer, thread: "thr_1"}
	for i := range 30 {
		c.say(fmt.Sprintf("word %d", i))
		page, err := ask.Messages(t.Context(), historyapi.MessagesQuery{ThreadRef: ref("thr_1")})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(page.Messages), 2*(i+1); got != want {
			t.Fatalf("after request %d: got %d messages, want %d", i, got, want)
		}
	}
}
