package projector_test

import (
	"log/slog"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/projector"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/storetest"
)

// TestRequestsThatTheStreamHasForgottenAreEnded has a store that knows of an open request, and a stream that holds of it
// what a test gives it.
func TestRequestsThatTheStreamHasForgottenAreEnded(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	tests := []struct {
		name   string // of the thread too
		events int    // that the store has
		given  func(t *testing.T, l storetest.Log)
		want   historyapi.Status
	}{
		{"begun", 5, func(*testing.T, storetest.Log) {}, historyapi.StatusError},
		{"never-begun", 0, func(*testing.T, storetest.Log) {}, historyapi.StatusError},
		{"with-a-log", 5, func(t *testing.T, l storetest.Log) {
			t.Helper()
			w, _, err := b.Claim(t.Context(), bus.LogID{Tenant: l.Tenant, RequestID: l.RequestID}, "runner", "")
			if err != nil {
				t.Fatal(err)
			}
			w.Close()
		}, historyapi.StatusRunning},
		{"with-its-record", 0, func(t *testing.T, l storetest.Log) {
			t.Helper()
			if _, _, err := b.Accept(t.Context(), *l.Accepted().Accepted); err != nil {
				t.Fatal(err)
			}
		}, historyapi.StatusQueued},
		{"with-a-pointer", 5, func(t *testing.T, l storetest.Log) {
			t.Helper()
			if err := b.Start(t.Context(), *l.Accepted().Accepted, 0); err != nil {
				t.Fatal(err)
			}
		}, historyapi.StatusRunning},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, l := open(t), storetest.NewLog(test.name, 0)
			r := recorder(t, s, b, nil)
			apply(t, r, delivered([]store.Entry{l.Accepted(), l.Thread()})...)
			if test.events > 0 {
				apply(t, r, delivered([]store.Entry{l.Frame(0, l.Bodies(test.events)[:test.events]...)})...)
			}
			test.given(t, l)
			closer := projector.NewCloser(s.Reader, b, r, slog.New(slog.DiscardHandler))
			for range 2 { // it may be done twice
				if err := closer.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.Request(t.Context(), l.Tenant, l.RequestID)
			if err != nil || got.Status != test.want {
				t.Fatalf("the request is %s, %v; want %s", got.Status, err, test.want)
			}
			if test.want != historyapi.StatusError {
				return
			}
			events, err := s.Events(t.Context(), store.Events{Tenant: l.Tenant, RequestID: l.RequestID, Limit: 100})
			if err != nil || len(events) != test.events+1 || events[test.events].Name != event.NameError {
				t.Errorf("got events %+v, %v; want an error behind the %d that there were", events, err, test.events)
			}
		})
	}
}
