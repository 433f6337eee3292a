package stack

import (
	"maps"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	before := Usage{NATS: 2 * time.Second, Gateway: time.Second}
	after := Usage{NATS: 5 * time.Second, Gateway: time.Second, Runner: time.Second}
	got := after.Sub(before)
	want := Usage{NATS: 3 * time.Second, Gateway: 0, Runner: time.Second}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if sum := got.Sum(NATS, Runner); sum != 4*time.Second {
		t.Errorf("sum is %v, want 4s", sum)
	}
}
