package historyapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/bus/rpc"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/go-json-experiment/json"
)

// serve answers queries on a server until the test ends, and returns a client once it does.
func serve(t *testing.T, verbs map[string]rpc.Handler) historyapi.Client {
	t.Helper()
	server := bustest.NewServer(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	b := server.Connect(t, "history")
	serving.Go(func() { _ = b.Serve(ctx, historyapi.Service, verbs) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	client := server.Connect(t, "client")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var answer struct{}
		err := client.Ask(t.Context(), historyapi.Service, "ready", struct{}{}, &answer)
		if err == nil {
			return historyapi.NewClient(client)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func ready(context.Context, []byte) (any, error) { return struct{}{}, nil }

// TestEachMethodSendsItsQuery calls every method, and answers each with a field that only the right response has.
func TestEachMethodSendsItsQuery(t *testing.T) {
	t.Parallel()
	thread := historyapi.ThreadRef{Tenant: "acme", ThreadID: "thr_1"}
	request := historyapi.RequestRef{Tenant: "acme", RequestID: "req_1"}
	tests := []struct {
		verb, question string // a part of the query
		response       any
		call           func(context.Context, historyapi.Client) (any, error)
		want           string
	}{
		{historyapi.VerbThread, `"threadId":"thr_1"`, historyapi.Thread{Owner: "o"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Thread(ctx, thread)
			return got.Owner, err
		}, "o"},
		{historyapi.VerbThreads, `"limit":7`, historyapi.ThreadPage{NextCursor: "n"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Threads(ctx, historyapi.ThreadsQuery{Tenant: "acme", Limit: 7})
			return got.NextCursor, err
		}, "n"},
		{historyapi.VerbSession, `"threadId":"thr_1"`, historyapi.Session{Thread: historyapi.Thread{Title: "t"}}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Session(ctx, thread)
			return got.Title, err
		}, "t"},
		{historyapi.VerbSessions, `"owner":"alice"`, historyapi.SessionPage{NextCursor: "n"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Sessions(ctx, historyapi.ThreadsQuery{Owner: "alice"})
			return got.NextCursor, err
		}, "n"},
		{historyapi.VerbMessages, `"cursor":"c"`, historyapi.MessagePage{NextCursor: "n"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Messages(ctx, historyapi.MessagesQuery{ThreadRef: thread, Cursor: "c"})
			return got.NextCursor, err
		}, "n"},
		{historyapi.VerbEvents, `"types":["text"]`, historyapi.EventPage{NextCursor: "n"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Events(ctx, historyapi.EventsQuery{ThreadRef: thread, Types: []event.Name{event.NameText}})
			return got.NextCursor, err
		}, "n"},
		{historyapi.VerbRequest, `"requestId":"req_1"`, historyapi.Request{AgentID: "demo"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Request(ctx, request)
			return got.AgentID, err
		}, "demo"},
		{historyapi.VerbFrames, `"from":5`, historyapi.FramePage{Frames: []historyapi.Frame{{Lines: "l"}}}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Frames(ctx, historyapi.FramesQuery{RequestRef: request, From: 5})
			return fmt.Sprint(len(got.Frames)), err
		}, "1"},
		{historyapi.VerbTranscript, `"before":3`, historyapi.TranscriptAnswer{Requests: []historyapi.RequestEvents{{RequestID: "r"}}},
			func(ctx context.Context, c historyapi.Client) (any, error) {
				got, err := c.Transcript(ctx, historyapi.TranscriptQuery{ThreadRef: thread, Before: 3})
				return fmt.Sprint(len(got.Requests)), err
			}, "1"},
		{historyapi.VerbOpen, `"limit":9`, historyapi.OpenPage{NextCursor: "n"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Open(ctx, historyapi.OpenQuery{Limit: 9})
			return got.NextCursor, err
		}, "n"},
		{historyapi.VerbKept, `"requestIds":["req_1"]`, historyapi.Kept{BodyHash: "h"}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Kept(ctx, historyapi.KeptQuery{Tenant: "acme", RequestIDs: []string{"req_1"}})
			return got.BodyHash, err
		}, "h"},
		{historyapi.VerbStored, `"owner":"alice"`, historyapi.Stored{Bytes: 8}, func(ctx context.Context, c historyapi.Client) (any, error) {
			got, err := c.Stored(ctx, historyapi.StoredQuery{Tenant: "acme", Owner: "alice"})
			return fmt.Sprint(got.Bytes), err
		}, "8"},
	}
	verbs := map[string]rpc.Handler{"ready": ready}
	for _, test := range tests {
		verbs[test.verb] = func(_ context.Context, question []byte) (any, error) {
			if !strings.Contains(string(question), test.question) {
				t.Errorf("%s: got the query %s, want %s", test.verb, question, test.question)
			}
			return test.response, nil
		}
	}
	client := serve(t, verbs)
	for _, test := range tests {
		if got, err := test.call(t.Context(), client); err != nil || got != test.want {
			t.Errorf("%s: got %v and %v, want %s", test.verb, got, err, test.want)
		}
	}
}

func TestErrorsKeepTheirCodes(t *testing.T) {
	t.Parallel()
	client := serve(t, map[string]rpc.Handler{
		"ready": ready,
		historyapi.VerbThread: func(context.Context, []byte) (any, error) {
			return nil, apierr.New(apierr.ThreadNotFound, "there is no such thread")
		},
		historyapi.VerbStored: func(context.Context, []byte) (any, error) { return nil, errors.New("password=secret") },
	})
	if _, err := client.Thread(t.Context(), historyapi.ThreadRef{}); apierr.CodeOf(err) != apierr.ThreadNotFound {
		t.Errorf("got %v, want the code of history's error", err)
	}
	if _, err := client.Stored(t.Context(), historyapi.StoredQuery{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without its cause", err)
	}
}

func TestAllThreadFrames(t *testing.T) {
	t.Parallel()
	pages := map[string]historyapi.ThreadFramePage{
		"":  {Requests: []historyapi.RequestFrames{{RequestID: "a"}, {RequestID: "b"}}, NextCursor: "1"},
		"1": {NextCursor: "2"}, // a page may be empty
		"2": {Requests: []historyapi.RequestFrames{{RequestID: "b"}, {RequestID: "c"}}},
	}
	var mu sync.Mutex
	var cursors []string
	client := serve(t, map[string]rpc.Handler{
		"ready": ready,
		historyapi.VerbThreadFrames: func(_ context.Context, question []byte) (any, error) {
			var q historyapi.ThreadFramesQuery
			if err := json.Unmarshal(question, &q); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			cursors = append(cursors, q.Cursor)
			if q.ThreadID == "broken" && q.Cursor != "" {
				return nil, apierr.New(apierr.Unavailable, "the database does not answer")
			}
			return pages[q.Cursor], nil
		},
	})
	tests := []struct {
		name, threadID string
		most           int // requests that the caller takes
		want           []string
		cursors        []string
		code           apierr.Code
	}{
		{"all pages in order", "thr_1", 10, []string{"a", "b", "b", "c"}, []string{"", "1", "2"}, ""},
		{"a caller that stops asks for no more", "thr_1", 1, []string{"a"}, []string{""}, ""},
		{"an error ends it", "broken", 10, []string{"a", "b"}, []string{"", "1"}, apierr.Unavailable},
	}
	for _, test := range tests {
		cursors = nil
		var got []string
		var failed error
		for r, err := range client.AllThreadFrames(t.Context(), historyapi.ThreadFramesQuery{ThreadRef: historyapi.ThreadRef{ThreadID: test.threadID}}) {
			if failed = err; err == nil {
				got = append(got, r.RequestID)
			}
			if len(got) == test.most {
				break
			}
		}
		if !slices.Equal(got, test.want) || !slices.Equal(cursors, test.cursors) || apierr.CodeOf(failed) != test.code && failed != nil {
			t.Errorf("%s: got %q by the cursors %q and %v, want %q by %q and %s", test.name, got, cursors, failed, test.want, test.cursors, test.code)
		}
		if (failed == nil) != (test.code == "") {
			t.Errorf("%s: got %v, want the code %q", test.name, failed, test.code)
		}
	}
}
