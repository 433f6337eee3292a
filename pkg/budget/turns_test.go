package budget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
)

// work takes a turn for a second, and notes when it began.
type work struct {
	mu    sync.Mutex
	order []string
	all   sync.WaitGroup
}

func (w *work) begin(t *testing.T, turns *budget.Turns, name string, cost int64) {
	t.Helper()
	w.all.Go(func() {
		turn := turns.Turn(name[:1])
		if err := turn.Take(t.Context()); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.order = append(w.order, name)
		w.mu.Unlock()
		time.Sleep(time.Second)
		turn.Leave(cost)
	})
	synctest.Wait()
}

func TestTurnsAreBoundedAndGroupsAlternate(t *testing.T) {
	t.Parallel()
	for places, want := range map[int]time.Duration{1: 6 * time.Second, 2: 3 * time.Second, 9: time.Second} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns, w, begun := budget.NewTurns(places, budget.Pace{}), &work{}, time.Now()
				for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2"} {
					w.begin(t, turns, name, 1)
				}
				w.all.Wait()
				if took := time.Since(begun); took != want {
					t.Errorf("took %v, want %v", took, want)
				}
				if order := []string{"a1", "a2", "b1", "a3", "b2", "a4"}; places == 1 && !slices.Equal(w.order, order) {
					t.Errorf("served %v, want %v", w.order, order)
				}
			})
		})
	}
}

func TestAGroupThatHasUsedUpItsPaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, w, begun := budget.NewTurns(1, budget.Pace{Rate: 10, Burst: 100}), &work{}, time.Now()
		w.begin(t, turns, "a1", 200) // 1 s, and leaves a debt of 100
		w.begin(t, turns, "a2", 0)
		w.begin(t, turns, "b1", 0)
		w.all.Wait()
		if want := []string{"a1", "b1", "a2"}; !slices.Equal(w.order, want) {
			t.Errorf("served %v, want %v", w.order, want)
		}
		if took := time.Since(begun); took != 12*time.Second {
			t.Errorf("took %v, want 12s: a turn, 10 s for the debt, and a turn", took)
		}
		if !turns.Turn("a").Try() {
			t.Error("a group without a debt gets no turn")
		}
	})
}

func TestAPaceLetsABurstPassAndThenItsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, begun := budget.NewTurns(1, budget.Pace{Rate: 10, Burst: 100}), time.Now()
		turn := turns.Turn("a")
		for n := range 30 {
			if err := turn.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); n <= 10 && took != 0 {
				t.Errorf("turn %d came after %v, want that the burst is not delayed", n, took)
			}
			turn.Leave(10)
		}
		if took := time.Since(begun); took != 19*time.Second {
			t.Errorf("took %v, want 19s", took)
		}
	})
}

func TestReaderKeepsPositionInTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := budget.NewTurns(1, budget.Pace{})
		holder := turns.Turn("a")
		if !holder.Try() {
			t.Fatal("got no turn while all are free")
		}
		early, w := turns.Turn("a"), &work{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := early.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want that the wait has ended", err)
		}
		w.begin(t, turns, "a-late", 0)
		w.all.Go(func() {
			if err := early.Take(t.Context()); err != nil {
				t.Error(err)
			}
			w.mu.Lock()
			w.order = append(w.order, "early")
			w.mu.Unlock()
			early.Leave(0)
		})
		synctest.Wait()
		if turns.Turn("b").Try() {
			t.Error("got a turn while none is free")
		}
		holder.Leave(0)
		w.all.Wait()
		if want := []string{"early", "a-late"}; !slices.Equal(w.order, want) {
			t.Errorf("served %v, want %v", w.order, want)
		}
		if !holder.Try() {
			t.Error("a reader that has ended its wait has lost a turn")
		}
	})
}

func TestTurnsOfManyGroupsAndReadersThatGiveUp(t *testing.T) {
	t.Parallel()
	const places = 3
	turns := budget.NewTurns(places, budget.Pace{Rate: 1e6, Burst: 10})
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			turn := turns.Turn(fmt.Sprint("g", i%150))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
			defer cancel()
			for range 20 {
				if turn.Take(ctx) == nil {
					turn.Leave(int64(i))
				}
			}
		})
	}
	all.Wait()
	for n := range places {
		if err := turns.Turn("last").Take(t.Context()); err != nil {
			t.Fatalf("turn %d of %d: %v", n, places, err)
		}
	}
	if turns.Turn("last").Try() {
		t.Errorf("got more than %d turns", places)
	}
}
