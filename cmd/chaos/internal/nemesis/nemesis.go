// Package nemesis injects faults into a cluster, determined by a seed: it kills, freezes and stops processes, empties
// and restarts servers, and disturbs the network. It ends each fault after a while.
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
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/cmd/chaos/internal/proxy"
	"github.com/agentbus/agentbus/internal/testcluster"
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
	concerns []testcluster.Kind
	scope    scope
	most     time.Duration // that it lasts
	do       func(ctx context.Context, nodes []*cluster.Node, while time.Duration)
}

// scope is how many of the nodes that it concerns a fault comes over.
type scope int

const (
	single   scope = iota // one of them
	together              // all that nothing else happens to, at once
	rolling               // all, one after the other
)

// Kinds names every sort of fault that a cluster can have.
func Kinds(shape cluster.Shape) []string {
	var names []string
	for _, k := range kinds(shape) {
		names = append(names, k.name)
	}
	return names
}

// longPartition is more than twice as long as a worker may be silent before another one takes its work over.
const longPartition = 10 * time.Second

// joined is what joins a service to the others: NATS, or its own address, where they call it.
func joined(service testcluster.Kind) testcluster.Kind {
	if service == testcluster.Agent {
		return testcluster.Agent
	}
	return testcluster.NATS
}

func partitionName(service testcluster.Kind) string {
	if service == testcluster.Agent {
		return "partition agent-server from its callers"
	}
	return "partition " + string(service) + " from nats"
}

func kinds(shape cluster.Shape) []kind {
	var all []kind
	killed, stopped, powerless := down((*cluster.Node).Kill), down((*cluster.Node).Terminate), down((*cluster.Node).LosePower)
	for _, service := range testcluster.Services() {
		one := []testcluster.Kind{service}
		all = append(all,
			kind{"kill " + string(service), one, single, time.Second, killed},
			kind{"freeze " + string(service), one, single, 8 * time.Second, freeze},
			kind{"stop " + string(service), one, single, 500 * time.Millisecond, stopped},
			kind{"lose answers to " + string(service), one, single, 2 * time.Second, disturb(proxy.Mode{Deaf: true}, true)},
			kind{partitionName(service), one, single, longPartition, partition(joined(service))},
			kind{"skew the clock of " + string(service), one, single, 20 * time.Second, skew},
		)
	}
	services := slices.DeleteFunc(testcluster.Services(), func(k testcluster.Kind) bool { return k == testcluster.Agent })
	cached := []testcluster.Kind{testcluster.Gateway, testcluster.Runner, testcluster.Executor}
	nats, redis, postgres := []testcluster.Kind{testcluster.NATS}, []testcluster.Kind{testcluster.Redis}, []testcluster.Kind{testcluster.Postgres}
	all = append(all,
		kind{"kill nats", nats, single, 2 * time.Second, killed},
		kind{"freeze nats", nats, single, 3 * time.Second, freeze},
		kind{"kill redis", redis, single, 2 * time.Second, killed},
		kind{"empty redis", redis, single, 0, empty},
		kind{"restart postgres", postgres, single, 2 * time.Second, stopped},
		kind{"crash postgres", postgres, single, 2 * time.Second, down(crash)},
		kind{"slow network", services, single, 4 * time.Second, disturb(proxy.Mode{Latency: 40 * time.Millisecond}, false)},
		kind{"reset network", services, single, 0, disturb(proxy.Mode{}, true)},
		kind{"hang network", services, single, 6 * time.Second, disturb(proxy.Mode{Hang: true}, false)},
		kind{"partition from redis", cached, single, longPartition, partition(testcluster.Redis)},
		kind{"partition from postgres", []testcluster.Kind{testcluster.History, testcluster.Hub}, single, longPartition, partition(testcluster.Postgres)},
		kind{"empty history", []testcluster.Kind{testcluster.History, testcluster.Postgres}, together, time.Second, emptyHistory},
		kind{"deploy", testcluster.Services(), rolling, 0, deploy},
	)
	if shape.Nodes > 1 {
		all = append(all, kind{"kill all nats", nats, together, 2 * time.Second, killed})
	}
	if shape.Disks {
		all = append(all,
			kind{"power loss of nats", nats, single, 2 * time.Second, powerless},
			kind{"full disk of nats", nats, single, 2 * time.Second, fill})
	}
	if shape.Disks && shape.Nodes > 1 {
		all = append(all, kind{"power loss of all nats", nats, together, 2 * time.Second, powerless})
	}
	return all
}

// Plan makes faults for a time. Every kind comes before any comes again, in an order that the seed says. Only those kinds
// come whose names contain one of the words; no words mean all kinds.
func Plan(seed uint64, shape cluster.Shape, duration, gap time.Duration, words []string) []Fault {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it must be repeatable
	all := slices.DeleteFunc(kinds(shape), func(k kind) bool {
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
	Log     *oplog.Log

	mu   sync.Mutex
	busy map[*cluster.Node]bool // something is being done to it
}

// Run carries out a plan, and waits until each fault is undone. A fault whose nodes are in trouble already waits for them.
// When ctx is done no more faults begin.
func (n *Nemesis) Run(ctx context.Context, plan []Fault) {
	n.busy = map[*cluster.Node]bool{}
	byName := map[string]kind{}
	for _, k := range kinds(n.Cluster.Shape()) {
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
		faults.Go(func() { n.begin(ctx, byName[f.Kind], f) })
	}
}

// begin does a fault once it may be done.
func (n *Nemesis) begin(ctx context.Context, k kind, f Fault) {
	if k.scope == rolling {
		n.inject(context.WithoutCancel(ctx), k, f, n.concerned(k))
		return
	}
	targets := n.claim(ctx, func() []*cluster.Node { return n.take(k, f.Which) })
	if len(targets) == 0 {
		return
	}
	defer n.free(targets)
	n.inject(context.WithoutCancel(ctx), k, f, targets)
}

// retryGap is the time between two looks whether nodes are free.
const retryGap = 50 * time.Millisecond

// claim returns the nodes of take as soon as there are any, or nil when ctx is done.
func (n *Nemesis) claim(ctx context.Context, take func() []*cluster.Node) []*cluster.Node {
	for ctx.Err() == nil {
		if nodes := take(); len(nodes) > 0 {
			return nodes
		}
		wait(ctx, retryGap)
	}
	return nil
}

// concerned returns every node that a fault may concern.
func (n *Nemesis) concerned(k kind) []*cluster.Node {
	var all []*cluster.Node
	for _, concerned := range k.concerns {
		all = append(all, n.Cluster.Find(concerned)...)
	}
	return all
}

// take returns the nodes that a fault comes over, so that nothing else happens to them meanwhile; none when they are busy.
func (n *Nemesis) take(k kind, which int) []*cluster.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	free := slices.DeleteFunc(n.concerned(k), func(node *cluster.Node) bool { return n.busy[node] })
	if len(free) > 0 && k.scope == single {
		free = free[which%len(free):][:1]
	}
	for _, node := range free {
		n.busy[node] = true
	}
	return free
}

// takeOne takes a node, if nothing happens to it.
func (n *Nemesis) takeOne(node *cluster.Node) []*cluster.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy[node] {
		return nil
	}
	n.busy[node] = true
	return []*cluster.Node{node}
}

func (n *Nemesis) free(nodes []*cluster.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range nodes {
		n.busy[node] = false
	}
}

// inject injects one fault and undoes it.
func (n *Nemesis) inject(ctx context.Context, k kind, f Fault, targets []*cluster.Node) {
	names := make([]string, len(targets))
	for i, node := range targets {
		names[i] = node.Name
		if node.Kind == testcluster.Gateway {
			names[i] += " http://" + node.Addr
		}
	}
	entry := oplog.Entry{
		At: n.Log.Now(), Actor: "nemesis", Op: oplog.Fault, Fault: k.name, Target: strings.Join(names, ", "), For: f.For,
	}
	defer func() { n.Log.Add(entry) }()
	if k.scope != rolling {
		k.do(ctx, targets, f.For)
		return
	}
	for _, node := range targets {
		one := n.claim(ctx, func() []*cluster.Node { return n.takeOne(node) })
		k.do(ctx, one, f.For)
		n.free(one)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// down ends processes, and starts them again after a while.
func down(end func(*cluster.Node)) func(context.Context, []*cluster.Node, time.Duration) {
	return func(ctx context.Context, nodes []*cluster.Node, while time.Duration) {
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() { end(n) })
		}
		all.Wait()
		wait(ctx, while)
		for _, n := range nodes {
			n.Up()
		}
	}
}

// crash ends PostgreSQL without letting it write anything down.
func crash(n *cluster.Node) { n.Crash(syscall.SIGQUIT) }

func freeze(ctx context.Context, nodes []*cluster.Node, frozen time.Duration) {
	for _, n := range nodes {
		n.Pause()
	}
	wait(ctx, frozen)
	for _, n := range nodes {
		n.Resume()
	}
}

// fill leaves NATS no space. It serves no streams from then on, and must be started again.
func fill(ctx context.Context, nodes []*cluster.Node, full time.Duration) {
	for _, n := range nodes {
		n.FillDisk()
	}
	wait(ctx, full)
	for _, n := range nodes {
		n.Kill()
		n.FreeDisk()
		n.Up()
	}
}

func empty(ctx context.Context, nodes []*cluster.Node, _ time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, n := range nodes {
		_ = n.Flush(ctx) // when it is down it is empty
	}
}

// disturb changes what the proxies of nodes do, and cuts their connections afterwards if the streams in them make no sense
// any more.
func disturb(m proxy.Mode, cut bool) func(context.Context, []*cluster.Node, time.Duration) {
	return func(ctx context.Context, nodes []*cluster.Node, while time.Duration) {
		var proxies []cluster.Link
		for _, n := range nodes {
			proxies = append(proxies, n.Links()...)
		}
		for _, p := range proxies {
			p.Set(m)
		}
		wait(ctx, while)
		for _, p := range proxies {
			p.Set(proxy.Mode{})
			if cut {
				p.Reset()
			}
		}
	}
}

// partition blocks traffic between nodes and the servers of a kind in both directions. Afterwards the connections
// continue, because TCP retransmits, except those that one side has closed meanwhile.
func partition(from testcluster.Kind) func(context.Context, []*cluster.Node, time.Duration) {
	return func(ctx context.Context, nodes []*cluster.Node, while time.Duration) {
		for _, n := range nodes {
			for _, p := range n.Proxies(from) {
				p.Set(proxy.Mode{Hang: true})
			}
		}
		wait(ctx, while)
		for _, n := range nodes {
			for _, p := range n.Proxies(from) {
				p.Set(proxy.Mode{})
			}
		}
	}
}

// emptyHistory deletes what history has in SQL under its hands, or drops its tables while it is down.
func emptyHistory(ctx context.Context, nodes []*cluster.Node, while time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	drop := while%2 == 0
	for _, kind := range []testcluster.Kind{testcluster.History, testcluster.Postgres} {
		for _, n := range nodes {
			switch {
			case n.Kind != kind:
			case kind == testcluster.Postgres:
				_ = n.EmptyHistory(ctx, drop) // where the server is down for so long, nothing is lost
			case drop:
				n.Kill()
				defer n.Up()
			}
		}
	}
}

// wrong is by how much a clock that is skewed is wrong.
const wrong = 10 * time.Minute

// skew restarts processes with a wrong clock, ahead or back, and later with the right one. Every other time it kills
// them, so that other processes take over their work.
func skew(ctx context.Context, nodes []*cluster.Node, while time.Duration) {
	ahead, end := wrong, (*cluster.Node).Terminate
	if while%2 == 0 {
		ahead = -wrong
	}
	if while/2%2 == 0 {
		end = (*cluster.Node).Kill
	}
	for _, clock := range []time.Duration{ahead, 0} {
		for _, n := range nodes {
			end(n)
			n.Skew(clock)
			n.Up()
		}
		if clock != 0 {
			wait(ctx, while)
		}
	}
}

// readyWait bounds how long a deploy waits for one node.
const readyWait = 20 * time.Second

// deploy stops nodes one after the other and waits for each restart, as a rolling deployment does.
func deploy(ctx context.Context, nodes []*cluster.Node, _ time.Duration) {
	for _, n := range nodes {
		n.Terminate()
		n.Up()
		ready, cancel := context.WithTimeout(ctx, readyWait)
		_ = n.Ready(ready) // it comes later then, and the next one is stopped all the same
		cancel()
	}
}
