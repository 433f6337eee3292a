package webhook

import (
	"testing"
	"time"
)

func TestRetriesBecomeRareAndAreSpread(t *testing.T) {
	t.Parallel()
	for attempt, most := range map[int]time.Duration{
		1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 10: 2560 * time.Second, 11: time.Hour, 1000: time.Hour,
	} {
		for range 100 {
			if got := retryDelay(attempt); got < most/2 || got > most {
				t.Errorf("attempt %d: got %s, want from %s to %s", attempt, got, most/2, most)
			}
		}
	}
}

func TestAHostOccupiesAPartOfTheDeliveries(t *testing.T) {
	t.Parallel()
	var all targets
	leaves := make([]func(), 0, perTarget)
	for range perTarget {
		leave, ok := all.enter("slow.example.com")
		if !ok {
			t.Fatal("a delivery was refused before the limit")
		}
		leaves = append(leaves, leave)
	}
	if _, ok := all.enter("slow.example.com"); ok {
		t.Error("the limit of a host has no effect")
	}
	if leave, ok := all.enter("other.example.com"); !ok {
		t.Error("a slow host delays another one")
	} else {
		leave()
	}
	for _, leave := range leaves {
		leave()
	}
	if len(all.busy) > 0 {
		t.Errorf("got %v after all deliveries have ended", all.busy)
	}
}
