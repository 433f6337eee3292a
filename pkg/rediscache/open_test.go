package rediscache_test

import (
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/alicebob/miniredis/v2"
)

func TestOpenRequestsOfAKeyAreSharedAndKeptWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	var stores [2]*rediscache.Store
	for i := range stores {
		s, err := rediscache.Open("redis://" + redis.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	one, other := stores[0], stores[1]
	open := func(s *rediscache.Store, want ...string) {
		t.Helper()
		got := s.Open(t.Context(), "k")
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	one.Opened(t.Context(), "k", "a")
	other.Opened(t.Context(), "k", "b")
	one.Opened(t.Context(), "another", "c")
	open(one, "a", "b")
	open(other, "a", "b")
	other.Closed(t.Context(), "k", "a")
	open(one, "b")
	redis.Close()
	one.Opened(t.Context(), "k", "d")
	one.Opened(t.Context(), "k", "e")
	one.Opened(t.Context(), "k", "e")
	one.Closed(t.Context(), "k", "d")
	open(one, "e")
	open(other)
}
