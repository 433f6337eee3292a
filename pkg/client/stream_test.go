package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
)

var hello = event.AgentRequest{Messages: []event.InputMessage{event.UserText("hello")}}

func collect(events iter.Seq2[event.Event, error]) ([]event.Event, error) {
	var all []event.Event
	for e, err := range events {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func expect(t *testing.T, events iter.Seq2[event.Event, error], want []event.Event) {
	t.Helper()
	got, err := collect(events)
	if err != nil {
		t.Fatal(err)
	}
	if text(got) != text(want) {
		t.Fatalf("got\n%s\nwant\n%s", text(got), text(want))
	}
}

func TestStreamYieldsEachEventOnce(t *testing.T) {
	t.Parallel()
	g := &gateway{log: transcript(20)}
	c := serve(t, g)
	var accepted []string
	expect(t, c.Stream(t.Context(), "demo", hello, client.StreamOptions{
		Include:  []string{"input", "plan"},
		Accepted: func(request, thread string) { accepted = append(accepted, request, thread) },
	}), g.log)
	if !slices.Equal(accepted, []string{requestID, threadID}) {
		t.Errorf("accepted: %v", accepted)
	}
	if g.connections != 1 || g.include[0] != "input,plan" {
		t.Errorf("%d connections, include %q", g.connections, g.include)
	}
}

// Wherever a connection is cut, and however it looks, the reader gets the whole log and the request runs once.
func TestACutAtEveryByte(t *testing.T) {
	t.Parallel()
	log := transcript(8)
	size := len((&gateway{log: log}).body("one", 0))
	for clean, step := range map[bool]int{false: 1, true: 13} {
		for at := gone; at < size; at += step {
			g := &gateway{log: log, cleanCut: clean, cut: func(connection int) int {
				if connection == 0 {
					return at
				}
				return whole
			}}
			c := serve(t, g)
			expect(t, c.Stream(t.Context(), "demo", hello, client.StreamOptions{}), log)
			if len(g.runs) != 1 {
				t.Fatalf("cut at %d: %d runs", at, len(g.runs))
			}
			c.HTTP.CloseIdleConnections()
		}
	}
}

func TestEveryConnectionIsCut(t *testing.T) {
	t.Parallel()
	log := transcript(100)
	// Enough for one event at a time: each connection makes a little progress, or none at all.
	g := &gateway{log: log, cut: func(connection int) int {
		if connection%3 == 1 {
			return gone
		}
		return 420
	}}
	expect(t, serve(t, g).Stream(t.Context(), "demo", hello, client.StreamOptions{}), log)
	if len(g.runs) != 1 || g.connections < len(log) {
		t.Errorf("%d runs over %d connections", len(g.runs), g.connections)
	}
}

func TestALostStreamIsReadAgainFromItsStart(t *testing.T) {
	t.Parallel()
	log := transcript(20)
	g := &gateway{
		log:         log,
		incarnation: func(connection int) string { return fmt.Sprint("inc", connection) },
		cut: func(connection int) int {
			if connection == 2 {
				return whole
			}
			return 450 * (connection + 1)
		},
	}
	expect(t, serve(t, g).Stream(t.Context(), "demo", hello, client.StreamOptions{}), log)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	log := transcript(20)
	for i := range log {
		t.Run(fmt.Sprintf("after event %d", i), func(t *testing.T) {
			t.Parallel()
			g := &gateway{log: log}
			expect(t, serve(t, g).Follow(t.Context(), requestID, log[i].ID), log[i+1:])
		})
	}
	t.Run("from the start, with a cut", func(t *testing.T) {
		t.Parallel()
		g := &gateway{log: log, cut: func(connection int) int { return 500 * (1 + connection) }}
		expect(t, serve(t, g).Follow(t.Context(), requestID, "", client.Extended), log)
		if g.include[1] != client.Extended || g.cursors[1] == "" {
			t.Errorf("resumed after %q with include %q", g.cursors, g.include)
		}
	})
	t.Run("no request at all", func(t *testing.T) {
		t.Parallel()
		_, err := collect(serve(t, &gateway{log: log}).Follow(t.Context(), "", ""))
		if err == nil || !strings.Contains(err.Error(), "id is missing") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("after something that is not a cursor", func(t *testing.T) {
		t.Parallel()
		_, err := collect(serve(t, &gateway{log: log}).Follow(t.Context(), requestID, "nonsense"))
		if err == nil || !strings.Contains(err.Error(), "<incarnation>-<n>") {
			t.Errorf("got %v", err)
		}
	})
}

func TestLeavingTheLoopEndsTheConnection(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		g := &gateway{log: transcript(2)[:1]}
		_, _ = fmt.Fprint(w, g.body("one", 0))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	for _, err := range c.Stream(t.Context(), "demo", hello, client.StreamOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	<-left
}

func TestTheEndOfTheContextEndsTheStream(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		cancel(why)
		<-r.Context().Done()
	}))
	if _, err := collect(c.Stream(ctx, "demo", hello, client.StreamOptions{})); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestASilentStreamCountsAsCut(t *testing.T) {
	t.Parallel()
	g := &gateway{log: transcript(20)}
	var connections atomic.Int32
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if connections.Add(1) > 1 {
			g.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Request-Id", requestID)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // as a host does whose cable was pulled
	}))
	c.Idle = 50 * time.Millisecond
	expect(t, c.Stream(t.Context(), "demo", hello, client.StreamOptions{}), g.log)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	body := func(code, more string) string {
		return `{"event":"error","requestId":"","timestamp":"2026-01-01T00:00:00Z","code":"` + code + `","message":"say it so","retryable":` + more + `}`
	}
	tests := map[string]struct {
		status      int
		header      http.Header
		body        string
		want        apierr.Error
		connections int32
	}{
		"a wrong request":    {400, nil, body("invalid_message_format", "false"), apierr.Error{Code: apierr.InvalidMessageFormat, Message: "say it so"}, 1},
		"no key":             {401, nil, body("auth_failed", "false"), apierr.Error{Code: apierr.AuthFailed, Message: "say it so"}, 1},
		"a busy thread":      {409, nil, body("thread_busy", `true,"runningRequestId":"req_9"`), apierr.Error{Code: apierr.ThreadBusy, Message: "say it so", Retryable: true, RequestID: "req_9"}, 1},
		"a full hour":        {429, http.Header{"Retry-After": {"1"}}, body("rate_limit_exceeded", "false"), apierr.Error{Code: apierr.RateLimitExceeded, Message: "say it so", RetryAfter: time.Second}, 1},
		"a server in need":   {503, nil, body("unavailable", "true"), apierr.Error{Code: apierr.Unavailable, Message: "say it so", Retryable: true}, 3},
		"a proxy's own page": {502, nil, "<html>Bad Gateway", apierr.Error{Code: apierr.Unavailable, Message: "the server answered 502 Bad Gateway and no reason", Retryable: true}, 3},
		"another server":     {404, nil, "404 page not found", apierr.Error{Code: apierr.RouteNotFound, Message: "the server answered 404 Not Found and no reason; is the URL that of an agentbus gateway?"}, 1},
		"an empty body":      {500, nil, "", apierr.Error{Code: apierr.Internal, Message: "the server answered 500 Internal Server Error and no reason"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var connections atomic.Int32
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				connections.Add(1)
				maps.Copy(w.Header(), test.header)
				w.WriteHeader(test.status)
				_, _ = fmt.Fprint(w, test.body)
			}))
			_, err := collect(c.Stream(t.Context(), "demo", hello, client.StreamOptions{}))
			got, ok := errors.AsType[*apierr.Error](err)
			if !ok || *got != test.want {
				t.Errorf("got %#v (%v), want %#v", got, err, test.want)
			}
			if n := connections.Load(); n != test.connections {
				t.Errorf("%d attempts, want %d", n, test.connections)
			}
		})
	}
}

func TestTheClientGivesUp(t *testing.T) {
	t.Parallel()
	t.Run("on a stream that is cut in the same place for ever", func(t *testing.T) {
		t.Parallel()
		g := &gateway{log: transcript(20), cut: func(int) int { return 60 }}
		c := serve(t, g)
		c.Attempts = 4
		_, err := collect(c.Follow(t.Context(), requestID, ""))
		if err == nil || !strings.Contains(err.Error(), "follow request req_1: the connection was cut") {
			t.Errorf("got %v", err)
		}
		if g.connections != 4 {
			t.Errorf("%d connections", g.connections)
		}
	})
	t.Run("on a server that speaks something else", func(t *testing.T) {
		t.Parallel()
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") }))
		_, err := collect(c.Stream(t.Context(), "demo", hello, client.StreamOptions{}))
		if err == nil || !strings.Contains(err.Error(), "is the URL that of an agentbus gateway?") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("on an invalid address", func(t *testing.T) {
		t.Parallel()
		for _, address := range []string{"", "localhost:8080", "http://[", "ftp://x"} {
			if _, err := collect(client.New(address, "").Stream(t.Context(), "demo", hello, client.StreamOptions{})); err == nil {
				t.Errorf("%q: no error", address)
			}
		}
	})
	t.Run("on a request that ended without its end", func(t *testing.T) {
		t.Parallel()
		log := transcript(20)
		g := &gateway{log: log[:len(log)-1]}
		_, err := collect(serve(t, g).Follow(t.Context(), requestID, ""))
		if err == nil || !strings.Contains(err.Error(), "has not sent its end") {
			t.Errorf("got %v", err)
		}
	})
}

// The waits grow, stay under their bound, honour what the server asks for, and differ between clients.
func TestWaits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		retryAfter string
		least      time.Duration
		most       time.Duration
	}{
		"nothing asked for":           {"", (125 + 250 + 500 + 1000) * time.Millisecond, (250 + 500 + 1000 + 2000) * time.Millisecond},
		"the server asks for 7":       {"7", 28 * time.Second, 42 * time.Second},
		"the server asks for an hour": {"3600", 4 * time.Minute, 6 * time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := client.New("http://gateway.test", "")
				c.Attempts = 5
				c.HTTP.Transport = unavailable(test.retryAfter)
				begin := time.Now()
				_, err := collect(c.Follow(t.Context(), requestID, ""))
				if apierr.CodeOf(err) != apierr.Unavailable {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begin); took < test.least || took > test.most {
					t.Errorf("5 attempts took %s, want %s to %s", took, test.least, test.most)
				}
			})
		})
	}
}

// unavailable is a server that always answers 503; its value is the Retry-After.
type unavailable string

func (u unavailable) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable", Request: r,
		Header: http.Header{"Retry-After": {string(u)}}, Body: http.NoBody,
	}, nil
}
