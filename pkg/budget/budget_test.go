package budget_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
)

func TestALeaseIsBoundedByTheShareOfItsGroup(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	a, other := b.Lease("a"), b.Lease("b")
	if !a.Try(50) || a.Try(51) || !other.Try(50) || other.Bytes() != 50 {
		t.Errorf("got %d and %d, want a half for each group", a.Bytes(), other.Bytes())
	}
	if c := b.Lease("c"); c.Try(1) {
		t.Error("a third group got more than there is")
	}
	if !a.Try(10) || b.Held() != 60 || b.Peak() != 100 {
		t.Errorf("holds %d, peak %d, want 60 and 100", b.Held(), b.Peak())
	}
	a.Release()
	other.Release()
	if b.Held() != 0 {
		t.Errorf("%d bytes are held by no lease", b.Held())
	}
}

func TestMoreThanThereIsIsGrantedAlone(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	l := b.Lease("a")
	if err := l.Wait(t.Context(), 1000); err != nil || l.Bytes() != 50 {
		t.Errorf("got %v and %d bytes", err, l.Bytes())
	}
	l.Set(1000)
	if other := b.Lease("b"); other.Try(1) {
		t.Error("a request above the whole budget leaves space for others")
	}
	l.Release()
}

func TestReadersOfAGroupAreServedInOrderAndOthersInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		first, second := b.Lease("a"), b.Lease("b")
		if !first.Try(50) || !second.Try(50) {
			t.Fatal("no room in an empty budget")
		}
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for _, r := range []string{"a1", "a2", "a3", "b1", "b2"} {
			all.Go(func() {
				l := b.Lease(r[:1])
				if err := l.Wait(t.Context(), 50); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, r)
				mu.Unlock()
				time.Sleep(time.Second)
				l.Release()
			})
			synctest.Wait()
		}
		first.Release()
		time.Sleep(500 * time.Millisecond)
		second.Release()
		all.Wait()
		if want := []string{"a1", "b1", "a2", "b2", "a3"}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
		if b.Held() != 0 || b.Peak() > 100 {
			t.Errorf("holds %d, peak %d", b.Held(), b.Peak())
		}
	})
}

func TestAGroupThatGivesNothingBackDoesNotBlockTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		stuck := b.Lease("a")
		if !stuck.Try(50) {
			t.Fatal("no room in an empty budget")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Lease("a").Wait(ctx, 1) }()
		synctest.Wait()
		other := b.Lease("b")
		if !other.Try(20) {
			t.Error("a group without bytes has to wait for one that holds its share")
		}
		if err := other.Wait(t.Context(), 50); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the wait was cancelled", err)
		}
		stuck.Release()
		other.Release()
		if b.Held() != 0 {
			t.Errorf("%d bytes are held by no lease", b.Held())
		}
	})
}

func TestAReaderThatWaitsHoldsNothing(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	var all sync.WaitGroup
	for range 50 { // each holds some and needs more: they would block one another if they kept it
		all.Go(func() {
			for range 100 {
				l := b.Lease("a")
				if err := l.Wait(t.Context(), 10); err != nil {
					t.Error(err)
				}
				if !l.Try(30) {
					if err := l.Wait(t.Context(), 30); err != nil {
						t.Error(err)
					}
				}
				l.Release()
			}
		})
	}
	all.Wait()
	if b.Held() != 0 || b.Peak() > 50 {
		t.Errorf("holds %d, peak %d", b.Held(), b.Peak())
	}
}
