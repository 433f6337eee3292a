package agentrunner

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestWorkInAReclaimedSlotCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan struct{})
		running := 0
		filled := make(chan struct{})
		go func() {
			defer close(filled)
			s.fill(ctx, func(context.Context) {
				running++
				<-end
			})
		}()
		for range waitsPerSlot { // one call after the other, each of which has a long request taken
			back, ok := s.lendSlot(t.Context())
			if !ok {
				t.Fatalf("%d places were lent, want %d", running, waitsPerSlot)
			}
			synctest.Wait()
			back()
		}
		if _, ok := s.lendSlot(t.Context()); ok || running != waitsPerSlot {
			t.Errorf("%d other requests run, and one more may", running)
		}
		close(end)
		synctest.Wait()
		back, ok := s.lendSlot(t.Context())
		if !ok {
			t.Error("nothing is lent though all has ended")
		}
		back()
		cancel()
		<-filled
		for range waitsPerSlot { // a runner that drains lends nothing, and its calls wait as before
			if back, ok = s.lendSlot(t.Context()); !ok {
				t.Error("a call may not wait")
			}
			defer back()
		}
	})
}
