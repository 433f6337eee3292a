package bus

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// simHeal is when faults end, so that everything that was promised can come true.
	simHeal = 2 * time.Minute
	// simEnd is when it must have.
	simEnd = 8 * time.Minute
)

// safeguard is one that a run does without, to see that the checks notice.
type safeguard string

const (
	noneMissing     safeguard = ""
	noCompareAndSet safeguard = "writes are compare-and-set"
	noMessageID     safeguard = "a message has an id of its own"
	noReadBack      safeguard = "a writer with a wrong sequence reads back who wrote"
	noLeaderRead    safeguard = "what decides is read from the leader"
	noGapFill       safeguard = "a follower fills gaps from storage"
	noLateAck       safeguard = "a pointer is acknowledged after the terminal event is stored"
	noAbortPointer  safeguard = "the process that ends an aborted request first checks its pointer"
)

// simConfig is one run of a scenario.
type simConfig struct {
	seed     uint64
	replicas int
	random   bool     // faults and harms are drawn from the seed
	awake    bool     // but for freezes
	harms    []moment // in addition
	missing  safeguard
}

// simPlan is what a request does.
type simPlan struct {
	steps int
	think time.Duration // at most, in a step
	tool  string        // a call at the end
}

// simWorld is one run: processes on a cluster, clients, and what they have seen.
type simWorld struct {
	simHistory
	cluster   *simCluster
	dice      dice
	plans     map[string]simPlan
	announces map[string]string // which request announced an action
	runners   []*simRunner
	gateways  []*simGateway
	processes []*simProcess
	ctx       context.Context //nolint:containedctx // ends with the run, for all who take part
	actors    sync.WaitGroup
	clients   sync.WaitGroup
}

// simulate runs a scenario and returns the world as it was in the end.
func simulate(t *testing.T, sc scenario, cfg simConfig) (w *simWorld) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), simEnd)
		defer cancel()
		w = newSimWorld(ctx, sc, cfg)
		w.run(sc)
		cancel()
		w.actors.Wait()
	})
	w.check()
	return w
}

func newSimWorld(ctx context.Context, sc scenario, cfg simConfig) *simWorld {
	d := dice(cfg.seed)
	w := &simWorld{
		dice: d, cluster: newSimCluster(d, cfg.replicas, cfg.missing), ctx: ctx, plans: sc.plans, announces: sc.announces,
		simHistory: newSimHistory(time.Now()),
	}
	harms := cfg.harms
	if cfg.random {
		w.cluster.faults = d.draw()
		harms = append(harms, d.harms(sc)...)
	}
	if cfg.awake {
		w.cluster.faults.freeze = 0
		harms = slices.DeleteFunc(harms, func(m moment) bool { return m.harm == freezes })
	}
	start := func(name string) *simProcess {
		p := newSimProcess(ctx, w.cluster, name, harms)
		w.processes = append(w.processes, p)
		return p
	}
	for i := range sc.runners {
		w.runners = append(w.runners, &simRunner{start(fmt.Sprint("runner-", i)), w})
	}
	for i := range sc.gateways {
		w.gateways = append(w.gateways, &simGateway{start(fmt.Sprint("gateway-", i)), w})
	}
	for i := range sc.executors {
		e := &simExecutor{start(fmt.Sprint("executor-", i)), w}
		w.actors.Go(func() {
			simWork(e.simProcess, w.cluster.streams["AGENTBUS_TOOLS"].queue, 4, func(*simMsg) {}, broker.Handle[record.ToolCall](e.handle).AnyMessage)
		})
	}
	return w
}

// harms are up to two moments in which processes come to harm. One process of each kind is spared.
func (d dice) harms(sc scenario) []moment {
	r := d.at("harms")
	spared := r.Uint64()
	var harms []moment
	for range r.IntN(3) {
		kinds := []string{"runner-", "runner-", "gateway-", "executor-"}
		counts := []int{sc.runners, sc.runners, sc.gateways, sc.executors}
		kind := r.IntN(len(kinds))
		if counts[kind] < 2 {
			continue
		}
		spare := int(spared % uint64(counts[kind]))
		harms = append(harms, moment{
			process: fmt.Sprint(kinds[kind], (spare+1+r.IntN(counts[kind]-1))%counts[kind]), call: 1 + r.IntN(40),
			harm: []harm{diesBefore, diesAfter, freezes}[r.IntN(3)],
		})
	}
	return harms
}

// run starts the runners and the clients, and waits until all that was promised has come true or the time is over.
func (w *simWorld) run(sc scenario) {
	requests := w.cluster.streams["AGENTBUS_REQUESTS"].queue
	for _, r := range w.runners {
		w.actors.Go(func() {
			simWork(r.simProcess, requests, cmp.Or(sc.slots, 4), func(m *simMsg) {
				if w.cluster.missing == noLateAck {
					_ = m.Ack()
				}
			}, r.take)
		})
		w.actors.Go(func() { _ = r.bus.WatchAborts(r.ctx, r.heard) })
		w.actors.Go(r.sweep)
	}
	w.actors.Go(func() {
		if broker.Pause(w.ctx, simHeal) != nil {
			return
		}
		w.cluster.mu.Lock()
		defer w.cluster.mu.Unlock()
		w.cluster.faults = faults{}
	})
	sc.play(w)
	w.clients.Wait()
	for !w.settled() {
		if broker.Pause(w.ctx, time.Second) != nil {
			return
		}
	}
}

// client lets one client play its part.
func (w *simWorld) client(name string, part func(*simClient) error) {
	w.clients.Go(func() {
		c := &simClient{world: w, name: name, turn: len(name)}
		if err := part(c); err != nil {
			w.violate("client %s: %v", name, err)
		}
	})
}

// take handles a pointer as [Bus.Starts] does. The sign of life, the look into the backlog and the handler begin at different
// instants, so that a seed repeats itself.
func (r *simRunner) take(ctx context.Context, s record.Start, msg jetstream.Msg) error {
	_ = broker.Pause(ctx, time.Nanosecond)
	return r.bus.Advancing(func(ctx context.Context, s record.Start) error {
		_ = broker.Pause(ctx, time.Nanosecond)
		return r.handle(ctx, s)
	})(context.WithValue(ctx, simCaller{}, s.RequestID), s, msg)
}

// settled reports whether every request that was accepted has ended, and no pointer is left in the backlog.
func (w *simWorld) settled() bool {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	for requestID := range w.calls() {
		if !w.log(requestID).terminal() {
			return false
		}
	}
	return len(w.parked()) == 0
}

// parked are the pointers in the backlog. The cluster's lock must be held, or the run be over.
func (w *simWorld) parked() []broker.Message {
	backlog := w.cluster.streams["AGENTBUS_BACKLOG"]
	parked, _ := backlog.next(broker.DefaultPrefix+"."+broker.KindBacklog+".>", 1, len(backlog.messages), len(backlog.messages))
	return parked
}

// simLog is a log as the stream has it.
type simLog []event.Frame

func (l simLog) terminal() bool { return len(l) > 0 && l[len(l)-1].Terminal() }

// worked reports whether anything was done.
func (l simLog) worked() bool { return bytes.Contains(l.lines(), []byte("step-")) }

func (l simLog) lines() []byte {
	var all []byte
	for _, f := range l {
		all = append(all, f.Lines...)
	}
	return all
}

// log reads a request's log where it is stored. The cluster's lock must be held, or the run be over.
func (w *simWorld) log(requestID string) simLog {
	var log simLog
	subject := broker.DefaultPrefix + "." + broker.KindEvent + "." + simTenant + "." + requestID
	for _, m := range w.cluster.streams["AGENTBUS_EVENTS"].messages {
		if m.Subject != subject {
			continue
		}
		f, err := eventlog.FrameOf(m)
		if err != nil {
			w.violate("log of %s: %v", requestID, err)
			continue
		}
		log = append(log, f)
	}
	return log
}

// open lists the requests that were accepted that long ago and have not ended, as history does.
func (w *simWorld) open(quiet time.Duration) []string {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	var open []string
	for _, m := range w.cluster.streams["AGENTBUS_EVENTS"].messages {
		requestID, ok := strings.CutPrefix(m.Subject, broker.DefaultPrefix+"."+broker.KindAccept+"."+simTenant+".")
		if ok && time.Since(m.Time) > quiet && !w.log(requestID).terminal() {
			open = append(open, requestID)
		}
	}
	return open
}

// thread reads a thread's records.
func (w *simWorld) thread(threadID string) []ThreadRecord {
	var all []ThreadRecord
	for _, m := range w.cluster.streams["AGENTBUS_EVENTS"].messages {
		if m.Subject != broker.DefaultPrefix+"."+broker.KindThread+"."+simTenant+"."+threadID {
			continue
		}
		t := ThreadRecord{Sequence: m.Sequence}
		err := m.Decode(&t.Thread)
		if err != nil {
			w.violate("thread %s: %v", threadID, err)
		}
		all = append(all, t)
	}
	return all
}

// newest reads the newest message on a subject.
func newest[T any](w *simWorld, stream string, tokens ...string) (value T, m broker.Message) {
	subject := broker.DefaultPrefix
	for _, token := range tokens {
		subject += "." + token
	}
	s := w.cluster.streams["AGENTBUS_"+stream]
	m, err := s.last(subject, len(s.messages))
	if err == nil {
		err = m.Decode(&value)
		if err != nil {
			w.violate("record %s: %v", subject, err)
		}
	}
	return value, m
}

// simSession is what a client has read of a log.
type simSession struct {
	log   broker.LogID
	n     uint64
	lines bytes.Buffer
	ended bool
	holes []string
}

func (s *simSession) take(f event.Frame) {
	if f.First != s.n {
		s.holes = append(s.holes, fmt.Sprintf("event %d follows event %d", f.First, s.n))
	}
	s.n = f.Next()
	s.lines.Write(f.Lines)
}
