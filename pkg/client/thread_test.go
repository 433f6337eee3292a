package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
)

// screens is a server of the stream of one thread with two requests. It cuts connections after so many bytes, and deletes the
// thread in the end.
type screens struct {
	incarnation func(connection int) string
	cut         int // bytes of a body; whole = never

	mu          sync.Mutex
	connections int
	asked       []string // cursor and query of each connection
}

// requests returns the cursor and query of each connection so far.
func (s *screens) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

const perRequest = 3

func (s *screens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	connection := s.connections
	s.connections++
	last := r.Header.Get("Last-Event-ID")
	s.asked = append(s.asked, last+"?"+r.URL.RawQuery)
	incarnation := "one"
	if s.incarnation != nil {
		incarnation = s.incarnation(connection)
	}
	body, left := s.body(incarnation, last)
	if r.URL.Path != "/v1/threads/thr_1/stream" || left == 0 && connection > 0 {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"event":"error","code":"thread_not_found","message":"gone","retryable":false}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Stream-Start", incarnation+"-0.start")
	if s.cut >= len(body) {
		_, _ = fmt.Fprint(w, body)
		return
	}
	_, _ = fmt.Fprint(w, body[:s.cut])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// body is what comes behind a cursor, and how many events of it.
func (s *screens) body(incarnation, after string) (body string, left int) {
	var text []byte
	behind := !strings.HasPrefix(after, incarnation+"-") || strings.HasSuffix(after, ".start")
	for index := range 2 {
		for n := range perRequest {
			cursor := fmt.Sprintf("%s-%d.%d", incarnation, index, n)
			if behind {
				text, _ = sse.Append(text, cursor, "text", fmt.Appendf(nil, `{"event":"text","requestId":"req_%d","stage":"delta","delta":"%d"}`, index, n))
				left++
			}
			behind = behind || cursor == after
		}
	}
	return string(text), left
}

// watched follows the thread to its end.
func watched(t *testing.T, s *screens, o client.ThreadOptions) (events, cursors []string) {
	t.Helper()
	o.At = func(c event.Cursor) { cursors = append(cursors, string(c)) }
	all, err := collect(serve(t, s).FollowThread(t.Context(), threadID, o))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		events = append(events, e.RequestID+" "+string(e.ID))
	}
	return events, cursors
}

func TestAThreadIsFollowedThroughCutsAtEveryByte(t *testing.T) {
	t.Parallel()
	want := []string{"req_0 one-0", "req_0 one-1", "req_0 one-2", "req_1 one-0", "req_1 one-1", "req_1 one-2"}
	body, _ := new(screens).body("one", "")
	first := len(body)/6 + 1 // below it, no connection brings an event, and none would ever
	for cut := first; cut <= len(body); cut += 7 {
		events, cursors := watched(t, &screens{cut: cut}, client.ThreadOptions{})
		if !slices.Equal(events, want) || cursors[4] != "one-1.1" {
			t.Fatalf("cut after %d bytes: got %v at %v", cut, events, cursors)
		}
	}
}

func TestAThreadIsFollowedFromWhereOneIs(t *testing.T) {
	t.Parallel()
	s := &screens{cut: whole}
	events, _ := watched(t, s, client.ThreadOptions{After: "one-0.1", Include: []string{client.Extended}, FromStart: true})
	if want := []string{"req_0 one-2", "req_1 one-0", "req_1 one-1", "req_1 one-2"}; !slices.Equal(events, want) {
		t.Errorf("got %v", events)
	}
	if got := s.requests()[0]; got != "one-0.1?from=start&include=extended" {
		t.Errorf("asked for %s", got)
	}
}

// A stream that begins anew under another incarnation brings again what was seen: it is not returned twice.
func TestThreadIsAnnouncedOnceAfterAReset(t *testing.T) {
	t.Parallel()
	body, _ := new(screens).body("one", "")
	s := &screens{cut: len(body) * 2 / 3, incarnation: func(n int) string { return []string{"one", "two"}[min(n, 1)] }}
	events, _ := watched(t, s, client.ThreadOptions{})
	if len(events) != 2*perRequest || events[0] != "req_0 one-0" || events[5] != "req_1 two-2" {
		t.Errorf("got %v", events)
	}
}

// Who saw nothing comes back to where it began, and not to what runs by then.
func TestAThreadThatWasSilentIsFollowedFromItsStart(t *testing.T) {
	t.Parallel()
	s := &screens{cut: 0}
	ctx, leave := context.WithCancel(t.Context())
	for range serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(s.requests()) == 2 {
			leave()
		}
		s.ServeHTTP(w, r)
	})).FollowThread(ctx, threadID, client.ThreadOptions{}) {
		break
	}
	if got := s.requests(); len(got) < 2 || got[0] != "?" || got[1] != "one-0.start?" {
		t.Errorf("asked for %v", got)
	}
}

func TestThreadsThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	c := serve(t, &screens{cut: whole})
	for _, test := range []struct {
		name, thread string
		after        event.Cursor
		code         apierr.Code
	}{
		{"no id", "", "", ""},
		{"a cursor of a request", threadID, "one-7", ""},
		{"a thread that is not there", "thr_2", "", apierr.ThreadNotFound},
	} {
		_, err := collect(c.FollowThread(t.Context(), test.thread, client.ThreadOptions{After: test.after}))
		var f *apierr.Error
		if err == nil || test.code != "" && (!errors.As(err, &f) || f.Code != test.code) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}
