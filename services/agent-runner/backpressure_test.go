package agentrunner_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// noise is text that cannot be compressed to nothing.
func noise(size int) string {
	raw := make([]byte, size*3/4)
	_, _ = rand.Read(raw) // never fails
	return base64.StdEncoding.EncodeToString(raw)
}

// TestWhatRunsLeavesRoomForItsEnd lets requests that were taken fill the stream to the last.
func TestWhatRunsLeavesRoomForItsEnd(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	if err := b.Provision(t.Context(), bus.Storage{Memory: true, MaxBytes: 4 << 20}); err != nil {
		t.Fatal(err)
	}
	for i, full := 0, 0.0; full < .9; i++ {
		a := record.Accepted{Tenant: tenant, RequestID: fmt.Sprint("filler_", i), BodyHash: noise(20_000)}
		if _, _, err := b.Accept(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		var err error
		if full, err = b.EventsFullness(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := newStackOn(t, b)
	s.backend = backendFunc(func(ctx context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			if err := emit(backend.TextDelta(noise(4_000))); err != nil {
				return backend.Outcome{}, err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return backend.Outcome{}, ctx.Err()
			}
		}
	})
	s.runner("r1")
	failed, events := end[event.Error](s, s.say("talk"))
	if failed.Code != apierr.Unavailable || !failed.Retryable || len(unstopped(events)) > 0 {
		t.Errorf("got %+v, open blocks %v", failed, unstopped(events))
	}
	if full, err := b.EventsFullness(t.Context()); err != nil || full < .95 || full >= 1 {
		t.Errorf("the stream is %v full, %v", full, err)
	}
	failed, events = end[event.Error](s, s.say("talk"))
	if failed.Code != apierr.Unavailable || len(find[event.Text](events)) > 0 {
		t.Errorf("one that came too late: got %+v in %v", failed, names(events))
	}
}
