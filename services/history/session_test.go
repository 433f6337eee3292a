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
)

// note writes a record of a session as a gateway does.
func note(t *testing.T, b *bus.Bus, after bus.SessionRecord, threadID, name string) bus.SessionRecord {
	t.Helper()
	now := time.Now()
	s, err := b.UpdateSession(t.Context(), tenant, record.Session{
		ThreadID: threadID, Owner: "ada", AgentID: "demo", Name: name, CreatedAt: now, UpdatedAt: now,
	}, after)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSessionsSeeWhatWasWritten(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"SQLite": url, "PostgreSQL": func(t *testing.T) string { return pgtest.New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			start(t, b, database(t))
			ask := historyapi.NewClient(b)
			for i := range 20 { // each answer must see the record before it, however far the projection is
				threadID := fmt.Sprintf("thr_%d", i)
				record := note(t, b, bus.SessionRecord{}, threadID, "first")
				s, err := ask.Session(t.Context(), ref(threadID))
				if err != nil || s.Title != "first" || s.Requests != 0 || s.Record == nil {
					t.Fatalf("a new session: got %+v, %v", s, err)
				}
				record = note(t, b, record, threadID, "second")
				thread, err := ask.Thread(t.Context(), ref(threadID))
				if err != nil || thread.Title != "second" || thread.Owner != "ada" || thread.LastRequestID != "" {
					t.Fatalf("a changed session: got thread %+v, %v", thread, err)
				}
				c := conversation{t: t, bus: b, thread: threadID}
				requestID := c.say("hello")
				note(t, b, record, threadID, "third")
				s, err = ask.Session(t.Context(), ref(threadID))
				if err != nil || s.Title != "third" || s.LastRequestID != requestID || s.Requests != 1 {
					t.Fatalf("a session with a request: got %+v, %v", s, err)
				}
			}
		})
	}
}

func TestListsSeeWhatWasWritten(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	b := server.Connect(t, "writer")
	database := pgtest.New(t)
	start(t, server.Connect(t, "history-1"), database) // either may answer, and either may store
	start(t, server.Connect(t, "history-2"), database)
	ask := historyapi.NewClient(b)
	for i := range 30 {
		begun, noted := fmt.Sprintf("thr_%d_begun", i), fmt.Sprintf("thr_%d_noted", i)
		c := conversation{t: t, bus: b, thread: begun}
		c.begin("hello")
		threads, err := ask.Threads(t.Context(), historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada", Limit: 1})
		if err != nil || len(threads.Threads) != 1 || threads.Threads[0].ThreadID != begun || threads.Threads[0].Title != "hello" {
			t.Fatalf("the newest thread is %+v (%v), want %s", threads.Threads, err, begun)
		}
		note(t, b, bus.SessionRecord{}, noted, "a name")
		sessions, err := ask.Sessions(t.Context(), historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada", Limit: 1})
		if err != nil || len(sessions.Sessions) != 1 || sessions.Sessions[0].ThreadID != noted || sessions.Sessions[0].Record.Name != "a name" {
			t.Fatalf("the newest session is %+v (%v), want %s", sessions.Sessions, err, noted)
		}
		// A message without a projection delays no answer.
		if _, err := b.Abort(t.Context(), tenant, record.Abort{RequestID: c.requestID()}); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for q := (historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada", Limit: 7}); ; {
		page, err := ask.Sessions(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Sessions {
			all = append(all, s.ThreadID)
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	if slices.Sort(all); len(slices.Compact(all)) != 60 {
		t.Errorf("the pages list %d sessions, want 60", len(all))
	}
}

func TestDeletedSessionIsNotFoundImmediately(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	record := note(t, b, bus.SessionRecord{}, "thr_1", "a name")
	if _, err := ask.Session(t.Context(), ref("thr_1")); err != nil {
		t.Fatal(err)
	}
	gone := record.Session
	gone.Deleted = true
	if _, err := b.UpdateSession(t.Context(), tenant, gone, record); err != nil {
		t.Fatal(err)
	}
	_, err := ask.Session(t.Context(), ref("thr_1"))
	wantCode(t, err, apierr.ThreadNotFound)
	_, err = ask.Thread(t.Context(), ref("thr_1"))
	wantCode(t, err, apierr.ThreadNotFound)
	page, err := ask.Sessions(t.Context(), historyapi.ThreadsQuery{Tenant: tenant, Owner: "ada"})
	if err != nil || len(page.Sessions) > 0 {
		t.Errorf("got sessions %+v, %v, want none", page.Sessions, err)
	}
	note(t, b, bus.SessionRecord{}, "thr_2", "a name")
	_, err = ask.Session(t.Context(), historyapi.ThreadRef{Tenant: "other", ThreadID: "thr_2"})
	wantCode(t, err, apierr.ThreadNotFound)
}

func TestAnEmptySessionHasEmptyLists(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	note(t, b, bus.SessionRecord{}, "thr_1", "a name")
	events, err := ask.Events(t.Context(), historyapi.EventsQuery{ThreadRef: ref("thr_1")})
	if err != nil || len(events.Events) > 0 {
		t.Errorf("got events %v, %v, want none", events.Events, err)
	}
	messages, err := ask.Messages(t.Context(), historyapi.MessagesQuery{ThreadRef: ref("thr_1")})
	if err != nil || len(messages.Messages) > 0 {
		t.Errorf("got messages %v, %v, want none", messages.Messages, err)
	}
	for r, err := range ask.AllThreadFrames(t.Context(), historyapi.ThreadFramesQuery{ThreadRef: ref("thr_1")}) {
		t.Errorf("got frames %v, %v, want none", r, err)
	}
}

func TestThreadFramesLeaveTheDeltasOut(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, b, url(t))
	ask := historyapi.NewClient(b)
	c := conversation{t: t, bus: b, thread: "thr_1"}
	first := c.say("one")
	second := c.begin("two")
	c.run(second, c.talk("two")...) // it runs on
	want := fmt.Sprintf("%[1]s: 0 claim, 1 input, 2 metadata, 3 text, 6 text, 7 tool_output, 8 done, "+
		"%[2]s: 0 claim, 1 input, 2 metadata, 3 text, 6 text, 7 tool_output, ", first, second)
	for _, limit := range []int{1, 2, 3, 7, 8, 12, 13, 14, 0} {
		var got strings.Builder
		last := ""
		for r, err := range ask.AllThreadFrames(t.Context(), historyapi.ThreadFramesQuery{ThreadRef: ref("thr_1"), Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.RequestID != last {
				last = r.RequestID
				fmt.Fprintf(&got, "%s: ", last)
			}
			for _, f := range r.Frames {
				frame := f.Event()
				for line := range frame.Each() {
					e, err := event.Decode(line.JSON)
					if err != nil || e.ID != event.NewCursor(b.Incarnation(), line.N) || e.Body.Name() != line.Name {
						t.Fatalf("event %d of %s is %s (%v)", line.N, last, line.JSON, err)
					}
					fmt.Fprintf(&got, "%d %s, ", line.N, line.Name)
				}
			}
		}
		if got.String() != want {
			t.Errorf("pages of %d:\n got %s\nwant %s", limit, got.String(), want)
		}
	}
	page, err := ask.ThreadFrames(t.Context(), historyapi.ThreadFramesQuery{
		ThreadRef: ref("thr_1"), Without: []event.Name{event.NameClaim, event.NameToolOutput, event.NameInput},
	})
	if err != nil || len(page.Requests) != 2 || page.Requests[0].Frames[0].First != 2 || page.NextCursor != "" {
		t.Errorf("without some: got %+v, %v", page, err)
	}
	_, err = ask.ThreadFrames(t.Context(), historyapi.ThreadFramesQuery{ThreadRef: ref("thr_unknown")})
	wantCode(t, err, apierr.ThreadNotFound)
}

func TestASessionThatTheStreamHasForgottenCanBeChanged(t *testing.T) {
	t.Parallel()
	database := url(t)
	t.Run("while the stream has it", func(t *testing.T) {
		b := bustest.New(t)
		start(t, b, database)
		note(t, b, bus.SessionRecord{}, "thr_1", "old")
		c := conversation{t: t, bus: b, thread: "thr_1"}
		c.say("hello")
		if s, err := historyapi.NewClient(b).Session(t.Context(), ref("thr_1")); err != nil || s.Title != "old" {
			t.Fatalf("got %+v, %v", s, err)
		}
	})
	t.Run("when another stream has taken its place", func(t *testing.T) {
		b := bustest.New(t)
		start(t, b, database)
		ask := historyapi.NewClient(b)
		old, err := ask.Session(t.Context(), ref("thr_1"))
		if err != nil || old.Title != "old" || old.Record == nil {
			t.Fatalf("got %+v, %v, want what is stored", old, err)
		}
		next := *old.Record
		next.Name, next.UpdatedAt = "new", next.UpdatedAt.Add(-time.Hour) // by a clock that is late
		if _, err := b.UpdateSession(t.Context(), tenant, next, bus.SessionRecord{Session: *old.Record}); err != nil {
			t.Fatal(err)
		}
		renamed, err := ask.Session(t.Context(), ref("thr_1"))
		if err != nil || renamed.Title != "new" || renamed.Requests != 1 || !renamed.CreatedAt.Equal(old.CreatedAt) {
			t.Errorf("got %+v, %v, want the new name on the old thread", renamed, err)
		}
	})
}
