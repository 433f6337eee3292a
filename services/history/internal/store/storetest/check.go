package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json"
)

// apply stores entries and expects each to be taken.
func apply(t testing.TB, s store.Store, entries ...store.Entry) store.Result {
	t.Helper()
	result := applyAny(t, s, entries...)
	for i, err := range result.Errors {
		if err != nil {
			t.Fatalf("entry %d: got %v, want it stored", i, err)
		}
	}
	return result
}

func applyAny(t testing.TB, s store.Store, entries ...store.Entry) store.Result {
	t.Helper()
	result, err := s.Apply(t.Context(), entries, store.Known{})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Errors) != len(entries) {
		t.Fatalf("got %d errors for %d entries", len(result.Errors), len(entries))
	}
	return result
}

// deliver stores entries as the bus would: those that wait for others come again.
func deliver(t testing.TB, s store.Store, entries ...store.Entry) {
	t.Helper()
	for round := 0; len(entries) > 0; round++ {
		if round > 1000 {
			t.Fatalf("%d entries still wait for others after 1000 rounds", len(entries))
		}
		var again []store.Entry
		for batch := range slices.Chunk(entries, 7) {
			for i, err := range applyAny(t, s, batch...).Errors {
				switch {
				case errors.Is(err, store.ErrHole):
					again = append(again, batch[i])
				case err != nil:
					t.Fatal(err)
				}
			}
		}
		entries = again
	}
}

func lines(entries ...store.Entry) []string {
	var all []string
	for _, e := range entries {
		if e.Frame != nil {
			all = append(all, strings.Split(strings.TrimSuffix(string(e.Frame.Lines), "\n"), "\n")...)
		}
	}
	return all
}

func texts(events []store.Event) []string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = string(e.JSON)
	}
	return all
}

// wantLog expects the events of a request to be exactly want, dense from 0.
func wantLog(t testing.TB, s store.Store, requestID string, want []string) {
	t.Helper()
	got, err := s.Events(t.Context(), store.Events{Tenant: Tenant, RequestID: requestID, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "log of "+requestID, texts(got), want)
	for i, e := range got {
		if e.N != uint64(i) {
			t.Fatalf("event %d of %s has n %d", i, requestID, e.N)
		}
	}
}

func wantSame(t testing.TB, what string, got, want []string) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 || slices.Equal(got, want) {
		return
	}
	t.Fatalf("%s:\n got %d: %s\nwant %d: %s", what, len(got), clip(got), len(want), clip(want))
}

func clip(lines []string) string {
	text := strings.Join(lines, "\n      ")
	return text[:min(len(text), 2000)]
}

// dump is everything that a reader can see of a thread.
func dump(t testing.TB, s store.Store, tenant, threadID string) string {
	t.Helper()
	thread, err := s.Thread(t.Context(), tenant, threadID)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := s.Requests(t.Context(), tenant, threadID, store.Position{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.Events(t.Context(), store.Events{Tenant: tenant, ThreadID: threadID, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return asJSON(t, []any{thread, requests, texts(events)})
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func names(events []store.Event) string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = string(e.Name)
	}
	return strings.Join(all, " ")
}

func place(e store.Event) string { return fmt.Sprintf("%s/%d", e.RequestID, e.N) }

func textStop(text string) event.Body {
	return event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStop}, Text: text}
}
