// Package nemesis does harm to a cluster, as a seed says: it kills, freezes and stops processes, empties and restarts
// servers, and spoils the network. It undoes what it does after a while.
package nemesis

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/cmd/chaos/internal/proxy"
	"github.com/agentbus/agentbus/cmd/chaos/internal/record"
)

// Fault is something that goes wrong at some time.
type Fault struct {
	After time.Duration // the one before
	Kind  string
	Which int           // of the nodes that it may concern
	For   time.Duration // until it is undone
}

// kind is a sort of fault.
type kind struct {
	name     string
	concerns []cluster.Kind
	most     time.Duration // that it lasts
	do       func(ctx context.Context, n *cluster.Node, while time.Duration)
}

// Kinds names every sort of fault, for a cluster with so many NATS nodes.
func Kinds(nodes int) []string {
	var names []string
	for _, k := range kinds(nodes) {
		names = append(names, k.name)
	}
	return names
}

func kinds(nodes int) []kind {
	var all []kind
	for _, service := range cluster.Services() {
		one := []cluster.Kind{service}
		all = append(all,
			kind{"kill " + string(service), one, time.Second, kill},
			kind{"freeze " + string(service), one, 8 * time.Second, freeze},
			kind{"stop " + string(service), one, 500 * time.Millisecond, stop},
			kind{"lose answers to " + string(service), one, 2 * time.Second, spoil(proxy.Mode{Deaf: true}, true)},
		)
	}
	nats, services := []cluster.Kind{cluster.NATS}, cluster.Services()
	all = append(all,
		kind{"kill nats", nats, 2 * time.Second, kill},
		kind{"freeze nats", nats, 3 * time.Second, freeze},
		kind{"kill redis", []cluster.Kind{cluster.Redis}, 2 * time.Second, kill},
		kind{"empty redis", []cluster.Kind{cluster.Redis}, 0, empty},
		kind{"restart postgres", []cluster.Kind{cluster.Postgres}, 2 * time.Second, stop},
		kind{"crash postgres", []cluster.Kind{cluster.Postgres}, 2 * time.Second, crash},
		kind{"slow network", services, 4 * time.Second, spoil(proxy.Mode{Latency: 40 * time.Millisecond}, false)},
		kind{"reset network", services, 0, spoil(proxy.Mode{}, true)},
		kind{"hang network", services, 6 * time.Second, spoil(proxy.Mode{Hang: true}, false)},
	)
	if nodes > 1 {
		all = append(all, kind{"kill all nats", nats, 2 * time.Second, nil})
	}
	return append(all, kind{"deploy", services, 0, nil})
}

// Plan makes faults for a time. Every kind comes before any comes again, in an order that the seed says. Only those kinds
// come whose names contain one of the words; no words mean all kinds.
func Plan(seed uint64, nodes int, duration, gap time.Duration, words []string) []Fault {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it must be repeatable
	all := slices.DeleteFunc(kinds(nodes), func(k kind) bool {
		return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(k.name, w) })
	})
	var plan []Fault
	var deck []kind
	for at := time.Duration(0); len(all) > 0; {
		if len(deck) == 0 {
			deck = slices.Clone(all)
			rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := Fault{After: gap/2 + time.Duration(rng.Int64N(int64(gap))), Kind: deck[0].name, Which: rng.IntN(64)}
		f.For = deck[0].most/10 + time.Duration(rng.Int64N(int64(deck[0].most)*9/10+1))
		deck = deck[1:]
		if at += f.After; at > duration {
			break
		}
		plan = append(plan, f)
	}
	return plan
}

// Nemesis carries out a plan.
type Nemesis struct {
	Cluster *cluster.Cluster
	Log     *record.Log

	mu   sync.Mutex
	busy map[*cluster.Node]bool // something is being done to it
}

// Run carries out a plan, and waits until each fault is undone. When ctx is done it begins no more.
func (n *Nemesis) Run(ctx context.Context, nodes int, plan []Fault) {
	n.busy = map[*cluster.Node]bool{}
	byName := map[string]kind{}
	for _, k := range kinds(nodes) {
		byName[k.name] = k
	}
	var faults sync.WaitGroup
	defer faults.Wait()
	for _, f := range plan {
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.After):
		}
		k := byName[f.Kind]
		targets := n.take(k, f.Which)
		if len(targets) == 0 {
			continue // all of them are in trouble already
		}
		faults.Go(func() {
			defer n.free(targets)
			n.harm(context.WithoutCancel(ctx), k, f, targets)
		})
	}
}

// take returns the nodes that a fault concerns, so that nothing else happens to them meanwhile; none when they are busy.
func (n *Nemesis) take(k kind, which int) []*cluster.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	var free []*cluster.Node
	for _, concerned := range k.concerns {
		for _, node := range n.Cluster.Find(concerned) {
			if !n.busy[node] {
				free = append(free, node)
			}
		}
	}
	if len(free) > 0 && k.do != nil {
		free = free[which%len(free):][:1]
	}
	for _, node := range free {
		n.busy[node] = true
	}
	return free
}

func (n *Nemesis) free(nodes []*cluster.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range nodes {
		n.busy[node] = false
	}
}

// harm does one fault and undoes it.
func (n *Nemesis) harm(ctx context.Context, k kind, f Fault, targets []*cluster.Node) {
	names := make([]string, len(targets))
	for i, node := range targets {
		names[i] = node.Name()
		if node.Kind() == cluster.Gateway {
			names[i] += " http://" + node.Addr
		}
	}
	entry := record.Entry{
		At: n.Log.Now(), Actor: "nemesis", Op: record.Fault, Fault: k.name, Target: strings.Join(names, ", "), For: f.For,
	}
	defer func() { n.Log.Add(entry) }()
	switch {
	case k.do != nil:
		k.do(ctx, targets[0], f.For)
	case k.name == "deploy":
		deploy(ctx, targets)
	default:
		killAll(ctx, targets, f.For)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func kill(ctx context.Context, n *cluster.Node, down time.Duration) {
	n.Kill()
	wait(ctx, down)
	n.Up()
}

func killAll(ctx context.Context, nodes []*cluster.Node, down time.Duration) {
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(n.Kill)
	}
	all.Wait()
	wait(ctx, down)
	for _, n := range nodes {
		n.Up()
	}
}

func freeze(ctx context.Context, n *cluster.Node, frozen time.Duration) {
	n.Pause()
	wait(ctx, frozen)
	n.Resume()
}

func stop(ctx context.Context, n *cluster.Node, down time.Duration) {
	n.Terminate()
	wait(ctx, down)
	n.Up()
}

// crash ends PostgreSQL without letting it write anything down.
func crash(ctx context.Context, n *cluster.Node, down time.Duration) {
	n.Crash(syscall.SIGQUIT)
	wait(ctx, down)
	n.Up()
}

func empty(ctx context.Context, n *cluster.Node, _ time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = n.Flush(ctx) // when it is down it is empty
}

// spoil changes what a node's proxies do, and cuts their connections afterwards if the streams in them make no sense any
// more.
func spoil(m proxy.Mode, cut bool) func(context.Context, *cluster.Node, time.Duration) {
	return func(ctx context.Context, n *cluster.Node, while time.Duration) {
		for _, p := range n.Proxies() {
			p.Set(m)
		}
		wait(ctx, while)
		for _, p := range n.Proxies() {
			p.Set(proxy.Mode{})
			if cut {
				p.Reset()
			}
		}
	}
}

// readyWait bounds how long a deploy waits for one node.
const readyWait = 20 * time.Second

// deploy stops one node after the other and goes on when it is back, as a rolling deploy does.
func deploy(ctx context.Context, nodes []*cluster.Node) {
	for _, n := range nodes {
		n.Terminate()
		n.Up()
		ready, cancel := context.WithTimeout(ctx, readyWait)
		_ = n.Ready(ready) // it comes later then, and the next one is stopped all the same
		cancel()
	}
}
