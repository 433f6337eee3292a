package rediscache_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/alicebob/miniredis/v2"
)

func TestOpenNeedsNoRedis(t *testing.T) {
	t.Parallel()
	s := gone(t)
	if err := s.Ping(t.Context()); err == nil {
		t.Error("got no error from a Redis that is not there")
	}
}

func TestOpenRefusesAnInvalidURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost:6379", "http://localhost", "redis://localhost/abc"} {
		if s, err := rediscache.Open(url); err == nil {
			t.Errorf("%q: got no error", url)
			_ = s.Close()
		}
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	server, s := open(t)
	want := action("a1", time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond))
	if err := s.PutActions(t.Context(), want, action("a2", time.Time{})); err != nil {
		t.Fatal(err)
	}
	if got, found, err := s.Action(t.Context(), "acme", "a1"); err != nil || !found || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, %v, want %+v", got, found, err, want)
	}
	if _, found, err := s.Action(t.Context(), "other", "a1"); err != nil || found {
		t.Errorf("another tenant: got found %v, %v", found, err)
	}
	if err := s.DropActions(t.Context(), "acme", "a2"); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Action(t.Context(), "acme", "a2"); err != nil || found {
		t.Errorf("after the drop: got found %v, %v", found, err)
	}
	server.FastForward(2 * time.Minute)
	if _, found, err := s.Action(t.Context(), "acme", "a1"); err != nil || found {
		t.Errorf("after it expired: got found %v, %v", found, err)
	}
}

func TestNoActionsNeedNoRedis(t *testing.T) {
	t.Parallel()
	s := gone(t)
	if err := errors.Join(s.PutActions(t.Context()), s.DropActions(t.Context(), "acme")); err != nil {
		t.Error(err)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	_, s := open(t)
	if aborted, err := s.Aborted(t.Context(), "acme", "r1"); err != nil || aborted {
		t.Errorf("before the mark: got %v, %v", aborted, err)
	}
	if err := s.MarkAborted(t.Context(), "acme", "r1"); err != nil {
		t.Fatal(err)
	}
	if aborted, err := s.Aborted(t.Context(), "acme", "r1"); err != nil || !aborted {
		t.Errorf("after the mark: got %v, %v", aborted, err)
	}
	if err := s.Remember(t.Context(), "acme", "r1", "hash"); err != nil {
		t.Fatal(err)
	}
	if hash, found, err := s.Recall(t.Context(), "acme", "r1"); err != nil || !found || hash != "hash" {
		t.Errorf("got %q, %v, %v", hash, found, err)
	}
	if _, found, err := s.Recall(t.Context(), "acme", "r2"); err != nil || found {
		t.Errorf("another key: got %v, %v", found, err)
	}
}

func TestEmptiedRedisHasNoActions(t *testing.T) {
	t.Parallel()
	server, s := open(t)
	if err := errors.Join(s.PutActions(t.Context(), action("a1", time.Time{})), s.MarkAborted(t.Context(), "acme", "r1")); err != nil {
		t.Fatal(err)
	}
	server.FlushAll()
	if _, found, err := s.Action(t.Context(), "acme", "a1"); err != nil || found {
		t.Errorf("action: got %v, %v", found, err)
	}
	if aborted, err := s.Aborted(t.Context(), "acme", "r1"); err != nil || aborted {
		t.Errorf("abort: got %v, %v", aborted, err)
	}
}

func TestADeadRedisCostsNothing(t *testing.T) {
	t.Parallel()
	server, s := open(t)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Close()
	for range 10 {
		if _, _, err := s.Action(t.Context(), "acme", "a1"); err == nil {
			t.Fatal("got no error from a Redis that is gone")
		}
	}
	begin := time.Now()
	for range 1000 {
		if _, _, err := s.Action(t.Context(), "acme", "a1"); err == nil {
			t.Fatal("got no error from a Redis that is gone")
		}
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("1000 calls took %v", took)
	}
}

func TestASilentRedisIsGivenUpSoon(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections into its backlog and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s := openURL(t, "redis://"+silent.Addr().String())
	begin := time.Now()
	for range 20 {
		if err := s.MarkAborted(t.Context(), "acme", "r1"); err == nil {
			t.Fatal("got no error from a Redis that is silent")
		}
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("20 calls took %v", took)
	}
	if err := s.MarkAborted(t.Context(), "acme", "r1"); !errors.Is(err, rediscache.ErrAway) {
		t.Errorf("got %v, want ErrAway", err)
	}
}

func TestRedisIsUsedAgainWhenItIsBack(t *testing.T) {
	t.Parallel()
	server, s := open(t)
	server.Close()
	for range 10 {
		if err := s.Ping(t.Context()); err == nil {
			t.Fatal("got no error from a Redis that is gone")
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for s.Ping(ctx) != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("still away, ten seconds after it came back")
		}
	}
}

func TestCancelledCallDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	_, s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if err := s.Ping(ctx); err == nil {
			t.Fatal("got no error for a context that is done")
		}
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("got %v, want an answer", err)
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	_, with := open(t)
	limit := rediscache.Limit{Requests: 2, Per: time.Hour, Burst: 3}
	for name, s := range map[string]*rediscache.Store{"with Redis": with, "without Redis": gone(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 3 {
				if d := s.Allow(t.Context(), "key", limit); !d.Allowed {
					t.Fatalf("call %d of a burst of 3 was refused: %+v", i, d)
				}
			}
			for range 2 {
				if d := s.Allow(t.Context(), "key", limit); d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 31*time.Minute {
					t.Errorf("a call beyond the burst: got %+v, want a refusal for half an hour", d)
				}
			}
			if d := s.Allow(t.Context(), "other", limit); !d.Allowed {
				t.Errorf("another key: got %+v", d)
			}
		})
	}
}

func TestLimitsInThisProcessAreBounded(t *testing.T) {
	t.Parallel()
	s := gone(t)
	limit := rediscache.Limit{Requests: 1, Per: time.Hour, Burst: 1}
	var name [8]byte
	for i := range 50_000 {
		for j := range name {
			name[j] = byte('a' + i>>(2*j)&3)
		}
		s.Allow(t.Context(), string(name[:]), limit)
	}
	if d := s.Allow(t.Context(), string(name[:]), limit); d.Allowed {
		t.Error("the newest key was forgotten")
	}
}

func action(id string, expires time.Time) rediscache.Action {
	return rediscache.Action{
		Tenant: "acme", ActionID: id, ThreadID: "t1", RequestID: "r1", Kind: event.ContinueApproval, ExpiresAt: expires,
		Payload: event.ContinuationAction{ToolCallID: "c1", Tool: "calculator", Args: []byte(`{"expression":"6*7"}`), ArgsHash: "ab"},
	}
}

func open(t *testing.T) (*miniredis.Miniredis, *rediscache.Store) {
	t.Helper()
	server := miniredis.RunT(t)
	return server, openURL(t, "redis://"+server.Addr())
}

// gone returns a store whose Redis never was.
func gone(t *testing.T) *rediscache.Store {
	t.Helper()
	return openURL(t, "redis://127.0.0.1:1")
}

func openURL(t *testing.T, url string) *rediscache.Store {
	t.Helper()
	s, err := rediscache.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestOpenShowsNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:S3CRETPW@host:99x9/0", "redis://u:%zzS3CRETPW@host", "http://u:S3CRETPW@host", "u:S3CRETPW@host"} {
		if _, err := rediscache.Open(url); err == nil || strings.Contains(err.Error(), "S3CRETPW") {
			t.Errorf("%q: got %v, want an error without the password", url, err)
		}
	}
}
