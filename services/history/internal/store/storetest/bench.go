package storetest

import (
	"fmt"
	"testing"

	"github.com/agentbus/agentbus/services/history/internal/store"
)

// BenchmarkApply measures how many events a second a database takes, in batches of 256 entries as the bus delivers
// them: few events a frame when streams are slow, many when they are fast or the projection catches up.
func BenchmarkApply(b *testing.B, open Open) {
	for _, size := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("frames of %d", size), func(b *testing.B) {
			s := open(b)
			const entries, requests = 256, 16
			events := 0
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				var batch []store.Entry
				for r := range requests {
					l := NewLog(fmt.Sprintf("t%d_%d", i, r), 0)
					batch = append(batch, l.Frames(size, l.Bodies(entries/requests*size-7)...)...)
				}
				b.StartTimer()
				result, err := s.Apply(b.Context(), batch, store.Known{})
				if err != nil {
					b.Fatal(err)
				}
				events += result.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkTranscript measures reading the events that a model needs of a thread of 20 requests with 500 deltas each:
// written by a slow model, an event a frame, and by a fast one.
func BenchmarkTranscript(b *testing.B, open Open) {
	for _, size := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("frames of %d", size), func(b *testing.B) {
			s := open(b)
			for i := range 20 {
				l := NewLog("thr", i)
				apply(b, s, append(l.Frames(size, l.Bodies(500)...), l.Accepted(), l.Thread())...)
			}
			for b.Loop() {
				events, err := s.Events(b.Context(), store.Events{Tenant: Tenant, ThreadID: "thr", Before: 20, Blocks: true, Limit: 1 << 20})
				if err != nil || len(events) != 20*7 {
					b.Fatalf("got %d events, %v", len(events), err)
				}
			}
		})
	}
}

// BenchmarkPage measures how long it takes to read a page of 100 events in the midst of a request of 10000.
func BenchmarkPage(b *testing.B, open Open) {
	for _, size := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("frames of %d", size), func(b *testing.B) {
			s, l := open(b), NewLog("thr", 0)
			apply(b, s, append(l.Frames(size, l.Bodies(10_000)...), l.Accepted(), l.Thread())...)
			for b.Loop() {
				events, err := s.Events(b.Context(), store.Events{
					Tenant: Tenant, ThreadID: "thr", After: store.Position{RequestID: l.RequestID, N: 5000}, Limit: 100, Bytes: 1 << 20,
				})
				if err != nil || len(events) != 100 || events[0].N != 5000 {
					b.Fatalf("got %d events, %v", len(events), err)
				}
			}
		})
	}
}
