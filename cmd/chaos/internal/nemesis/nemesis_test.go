package nemesis

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAPlanIsItsSeeds(t *testing.T) {
	t.Parallel()
	plan := func(seed uint64) []Fault { return Plan(seed, 3, time.Minute, time.Second, nil) }
	if !reflect.DeepEqual(plan(7), plan(7)) {
		t.Error("one seed has two plans")
	}
	if reflect.DeepEqual(plan(7), plan(8)) {
		t.Error("two seeds have one plan")
	}
}

func TestEveryKindComesBeforeAnyComesAgain(t *testing.T) {
	t.Parallel()
	kinds := Kinds(3)
	plan := Plan(1, 3, time.Hour, time.Second, nil)
	var first []string
	for _, f := range plan[:len(kinds)] {
		first = append(first, f.Kind)
	}
	slices.Sort(first)
	slices.Sort(kinds)
	if !slices.Equal(first, kinds) {
		t.Errorf("got %v first, want each of %v", first, kinds)
	}
}

func TestAPlanKeepsToItsTimeAndItsWords(t *testing.T) {
	t.Parallel()
	at := time.Duration(0)
	plan := Plan(3, 1, 2*time.Minute, time.Second, []string{"kill", "network"})
	for _, f := range plan {
		at += f.After
		if !strings.Contains(f.Kind, "kill") && !strings.Contains(f.Kind, "network") {
			t.Errorf("got %s, want what the words name", f.Kind)
		}
		if f.For < 0 || f.For > 10*time.Second {
			t.Errorf("%s lasts %v", f.Kind, f.For)
		}
	}
	if at > 2*time.Minute || len(plan) < 60 {
		t.Errorf("got %d faults until %v, want about one a second for two minutes", len(plan), at)
	}
	if got := Plan(3, 1, time.Minute, time.Second, []string{"no such kind"}); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestOneNodeIsNotKilledTogether(t *testing.T) {
	t.Parallel()
	if slices.Contains(Kinds(1), "kill all nats") || !slices.Contains(Kinds(3), "kill all nats") {
		t.Errorf("got %v and %v", Kinds(1), Kinds(3))
	}
}
