package bus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/record"
)

// start returns an unprovisioned bus on a server of its own.
func start(t *testing.T) *bus.Bus {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b, err := bus.Connect(t.Context(), bus.Options{URL: s.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestRetentionOfExistingStreamsIsChanged(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, age := range []time.Duration{0, 3 * time.Second, time.Hour, time.Minute, 240 * time.Hour} {
		if err := b.Provision(t.Context(), bus.Storage{Memory: true, MaxAge: age}); err != nil {
			t.Fatalf("maximum age %s: %v", age, err)
		}
		want := age
		if want == 0 {
			want = bus.DefaultMaxAge
		}
		if got := b.MaxAge(); got != want {
			t.Errorf("maximum age is %s, want %s", got, want)
		}
		if err := b.Verify(t.Context()); err != nil {
			t.Errorf("maximum age %s: verify: %v", age, err)
		}
	}
	err := b.Provision(t.Context(), bus.Storage{Memory: true, MaxAge: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "must be at least 1s") {
		t.Errorf("got %v for a maximum age of 1ms", err)
	}
}

func TestRecordsResultsAndObjectsExpire(t *testing.T) {
	t.Parallel()
	b := start(t)
	if err := b.Provision(t.Context(), bus.Storage{Memory: true, MaxAge: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	log := bus.LogID{Tenant: "t", RequestID: "r"}
	if _, _, err := b.Accept(t.Context(), record.Accepted{Tenant: log.Tenant, RequestID: log.RequestID, ThreadID: "th"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.PutToolResult(t.Context(), log, record.ToolResult{ToolCallID: "c"}); err != nil {
		t.Fatal(err)
	}
	ref, err := b.PutObject(t.Context(), log.Tenant, "th", []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	gone := map[string]func() error{
		"accept record": func() error { _, err := b.Accepted(t.Context(), log); return err },
		"tool result":   func() error { _, err := b.ToolResult(t.Context(), log, "c"); return err },
		"object":        func() error { _, err := b.Object(t.Context(), log.Tenant, "th", ref); return err },
	}
	deadline := time.Now().Add(time.Minute)
	for what, read := range gone {
		err := read()
		for !errors.Is(err, bus.ErrNotFound) && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
			err = read()
		}
		if !errors.Is(err, bus.ErrNotFound) {
			t.Errorf("%s: got %v, want that it has expired", what, err)
		}
	}
}
