package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
)

// connectWith returns a bus on a fresh server whose readers share a budget.
func connectWith(t *testing.T, room *budget.Budget) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Options{URL: bustest.NewServer(t).URL(), Name: "test", Replay: room})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// compressible writes a log that takes many times as much in memory as it takes in the stream, and ends it.
func compressible(t *testing.T, b *bus.Bus, log bus.LogID, events, bytes int) (next uint64, size int) {
	t.Helper()
	w := claim(t, b, log)
	for range events {
		emit(t, w, delta(strings.Repeat("x", bytes)))
	}
	emit(t, w, event.Done{MessageID: "m", ThreadID: "t", FinishReason: event.FinishStop})
	for f, err := range b.Read(t.Context(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		next, size = f.Next(), size+len(f.Lines)
	}
	return next, size
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// It is not parallel: it looks at the heap of the whole process.
func TestReadersThatTakeNothingMoreKeepOneFrameEach(t *testing.T) {
	const readers = 40
	b, log := bustest.New(t), newLog()
	_, size := compressible(t, b, log, 100, 60<<10)
	if size < 6_000_000 {
		t.Fatalf("the log takes %d bytes decoded", size)
	}
	before := heap()
	var followers []*bus.Follower
	for range readers {
		f, err := b.Follow(t.Context(), log, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Next(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		followers = append(followers, f)
	}
	if kept := (heap() - before) / readers; kept > 1<<20 {
		t.Errorf("each of %d readers keeps %d bytes of a log of %d", len(followers), kept, size)
	}
	runtime.KeepAlive(followers)
}

func TestWhatReadersBufferIsWithinTheBudget(t *testing.T) {
	t.Parallel()
	const limit, readers = 16 << 20, 64
	room := budget.New(limit)
	b, log := connectWith(t, room), newLog()
	end, _ := compressible(t, b, log, 6, limit/readers*2) // a frame of each reader takes twice the budget
	var stuck []*bus.Follower
	for range readers { // each takes a frame, and then nothing: some have to wait even for that
		f, err := b.Follow(t.Context(), log, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range 2 { // the claim, which is short, and a frame of events
			if _, err := f.Next(t.Context(), time.Millisecond); err != nil && !errors.Is(err, bus.ErrIdle) {
				t.Fatal(err)
			}
		}
		stuck = append(stuck, f)
	}
	var all sync.WaitGroup
	for _, f := range stuck { // and once the clients take something again, so do these, each to the end
		all.Go(func() {
			if n := drain(t, f); n != end {
				t.Errorf("read to event %d of %d", n, end)
			}
			f.Close()
		})
	}
	all.Wait()
	if room.Peak() > limit || room.Held() != 0 {
		t.Errorf("readers held %d of %d bytes at most, and hold %d at the end", room.Peak(), limit, room.Held())
	}
}

func TestAnotherTenantReadsWhileReadersOfOneTakeNothing(t *testing.T) {
	t.Parallel()
	room := budget.New(8 << 20)
	b, log := connectWith(t, room), newLog()
	compressible(t, b, log, 20, 60<<10)
	theirs := bus.LogID{Tenant: "other", RequestID: newLog().RequestID}
	end, _ := compressible(t, b, theirs, 20, 60<<10)
	for {
		f, err := b.Follow(t.Context(), log, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = f.Next(t.Context(), 10*time.Millisecond)
		if errors.Is(err, bus.ErrThrottled) {
			break // the tenant holds what it may
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := readToEnd(t, b, theirs); n != end {
		t.Errorf("read to event %d of %d", n, end)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, err := b.Follow(ctx, log, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if _, err := f.Next(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the wait for room ends with its context", err)
	}
}

func TestReadersOfStorageWaitForATurn(t *testing.T) {
	t.Parallel()
	b, log := bustest.New(t), newLog()
	end, _ := compressible(t, b, log, 5, 60<<10)
	release := b.HoldTurns()
	f, err := b.Follow(t.Context(), log, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if frame, err := f.Next(t.Context(), 50*time.Millisecond); !errors.Is(err, bus.ErrThrottled) {
		t.Fatalf("got a frame of %d bytes, %v, want ErrThrottled while all turns are taken", len(frame.Lines), err)
	}
	if held := b.Replay().Held(); held != 0 {
		t.Errorf("a reader that was given nothing holds %d bytes", held)
	}
	release()
	if n := drain(t, f); n != end {
		t.Errorf("read to event %d of %d", n, end)
	}
}

func TestATenantThatHasUsedUpItsPaceDelaysNoOtherAndNoReader(t *testing.T) {
	t.Parallel()
	b, log := bustest.New(t), newLog()
	end, _ := compressible(t, b, log, 5, 60<<10)
	theirs := bus.LogID{Tenant: "other", RequestID: newLog().RequestID}
	their, _ := compressible(t, b, theirs, 5, 60<<10)
	b.UseUpPace(log.Tenant, time.Hour)
	for _, reads := range []struct {
		log  bus.LogID
		from uint64
		want error
	}{{log, 0, bus.ErrThrottled}, {log, end, bus.ErrIdle}, {theirs, 0, nil}} {
		f, err := b.Follow(t.Context(), reads.log, reads.from)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Next(t.Context(), 50*time.Millisecond); !errors.Is(err, reads.want) {
			t.Errorf("a follower of %v from event %d got %v, want %v", reads.log, reads.from, err, reads.want)
		}
		if reads.want == nil {
			if n := drain(t, f); n != their {
				t.Errorf("read to event %d of %d", n, their)
			}
		}
	}
	if n := readToEnd(t, b, log); n != end {
		t.Errorf("Read came to event %d of %d, want that it is not paced", n, end)
	}
}

// Only what is read counts, in however many frames it is stored.
func TestManyShortFramesCostTheirBytes(t *testing.T) {
	t.Parallel()
	b, log := bustest.New(t), newLog()
	w := claim(t, b, log)
	const frames = 300
	for range frames {
		emit(t, w, delta("x"))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	emit(t, w, event.Done{MessageID: "m", ThreadID: "t", FinishReason: event.FinishStop})
	end, size, stored := uint64(0), 0, 0
	for f, err := range b.Read(t.Context(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		end, size, stored = f.Next(), size+len(f.Lines), stored+1
	}
	if stored < frames {
		t.Fatalf("got %d frames, want at least %d", stored, frames)
	}
	b.SetBurst(size + 128<<10)
	f, err := b.Follow(t.Context(), log, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for next := uint64(0); next < end; {
		frame, err := f.Next(t.Context(), 5*time.Second)
		if err != nil {
			t.Fatalf("after event %d of %d: got %v, want that the burst suffices", next, end, err)
		}
		next = frame.Next()
	}
}

// readToEnd reads a log and returns the n behind its last event.
func readToEnd(t *testing.T, b *bus.Bus, log bus.LogID) (next uint64) {
	t.Helper()
	for f, err := range b.Read(t.Context(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if f.First != next {
			t.Fatalf("event %d comes after %d", f.First, next)
		}
		next = f.Next()
	}
	return next
}

// drain reads what a follower has left and returns the n behind its last event. It may be called in any goroutine.
func drain(t *testing.T, f *bus.Follower) (next uint64) {
	for {
		frame, err := f.Next(t.Context(), 5*time.Second)
		switch {
		case errors.Is(err, io.EOF):
			return next
		case errors.Is(err, bus.ErrIdle):
			continue
		case err != nil:
			t.Error(fmt.Errorf("after event %d: %w", next, err))
			return next
		}
		next = frame.Next()
	}
}

// It is not parallel: it looks at the heap of the whole process.
func TestReadersThatWaitForRoomKeepNoFrame(t *testing.T) {
	const readers = 40
	room := budget.New(64 << 20)
	b, log := connectWith(t, room), newLog()
	compressible(t, b, log, 20, 60<<10)
	before := heap()
	var followers []*bus.Follower
	for range readers {
		f, err := b.Follow(t.Context(), log, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Next(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if frame, err := f.Next(t.Context(), time.Minute); err != nil || len(frame.Lines) < 50<<10 {
			t.Fatalf("got a frame of %d bytes, %v", len(frame.Lines), err)
		}
		followers = append(followers, f)
	}
	others := room.Lease(log.Tenant)
	others.Set(64 << 20)
	defer others.Release()
	for _, f := range followers {
		if _, err := f.Next(t.Context(), time.Millisecond); !errors.Is(err, bus.ErrThrottled) {
			t.Fatalf("got %v, want that there is no room", err)
		}
	}
	if kept := (heap() - before) / readers; kept > 30<<10 {
		t.Errorf("each of %d readers keeps %d bytes and is charged none", len(followers), kept)
	}
	runtime.KeepAlive(followers)
}
