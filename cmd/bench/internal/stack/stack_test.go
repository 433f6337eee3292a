package stack

import (
	"maps"
	"os"
	"strings"
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

func TestFilesSayHowNATSSyncs(t *testing.T) {
	t.Parallel()
	for always, want := range map[bool]string{false: `sync_interval: "2m"`, true: `sync_interval: "always"`} {
		nats, _, err := writeFiles(Options{Dir: t.TempDir(), SyncAlways: always}, "127.0.0.1:4222")
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(nats)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("always %v: %s", always, text)
		}
	}
}
