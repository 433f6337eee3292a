package nemesis

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
)

var (
	one   = cluster.Shape{Nodes: 1}
	three = cluster.Shape{Nodes: 3, Disks: true}
)

func TestAPlanIsItsSeeds(t *testing.T) {
	t.Parallel()
	plan := func(seed uint64) []Fault { return Plan(seed, three, time.Minute, time.Second, nil) }
	if !reflect.DeepEqual(plan(7), plan(7)) {
		t.Error("one seed has two plans")
	}
	if reflect.DeepEqual(plan(7), plan(8)) {
		t.Error("two seeds have one plan")
	}
}

func TestEveryFaultKindRunsBeforeRepeats(t *testing.T) {
	t.Parallel()
	kinds := Kinds(three)
	plan := Plan(1, three, time.Hour, time.Second, nil)
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

func TestFaultPlanObeysDurationAndNames(t *testing.T) {
	t.Parallel()
	at := time.Duration(0)
	plan := Plan(3, one, 2*time.Minute, time.Second, []string{"kill", "network"})
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
	if got := Plan(3, one, time.Minute, time.Second, []string{"no such kind"}); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestFaultsSelectOnlyValidTargets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind  string
		shape cluster.Shape
		want  bool
	}{
		{"kill all nats", cluster.Shape{Nodes: 1, Disks: true}, false},
		{"kill all nats", cluster.Shape{Nodes: 3}, true},
		{"power loss of nats", cluster.Shape{Nodes: 3}, false},
		{"power loss of nats", cluster.Shape{Nodes: 1, Disks: true}, true},
		{"power loss of all nats", cluster.Shape{Nodes: 1, Disks: true}, false},
		{"power loss of all nats", cluster.Shape{Nodes: 3, Disks: true}, true},
	}
	for _, test := range tests {
		if got := slices.Contains(Kinds(test.shape), test.kind); got != test.want {
			t.Errorf("%s in %+v: got %v, want %v", test.kind, test.shape, got, test.want)
		}
	}
}

func TestAFaultWaitsForANodeThatIsInTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &cluster.Node{}
		n := &Nemesis{busy: map[*cluster.Node]bool{}}
		take := func() []*cluster.Node { return n.takeOne(node) }
		begin := time.Now()
		first := n.claim(t.Context(), take)
		time.AfterFunc(3*time.Second, func() { n.free(first) })
		if second := n.claim(t.Context(), take); len(second) != 1 || time.Since(begin) < 3*time.Second {
			t.Errorf("got %d nodes after %v, want one after 3s", len(second), time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if third := n.claim(ctx, take); len(third) != 0 {
			t.Errorf("got %d nodes, want none before the end of the load", len(third))
		}
	})
}
