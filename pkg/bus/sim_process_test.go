package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// moment is a place in a run where a process comes to harm: a call that it makes, by number.
type moment struct {
	process string
	call    int
	harm    harm
}

type harm string

const (
	diesBefore harm = "dies before"
	diesAfter  harm = "dies after" // the broker has done what it asked for, and the answer is lost
	freezes    harm = "freezes before"
)

func (m moment) String() string { return fmt.Sprintf("%s %s call %d", m.process, m.harm, m.call) }

// simProcess is a process: a bus, whose calls are numbered, on a broker that may fail it. When it dies its calls return
// at once and have no effect any more; what it sent before may still arrive.
type simProcess struct {
	name    string
	bus     *Bus
	cluster *simCluster
	harms   []moment
	ctx     context.Context //nolint:containedctx // ends with the process, from any caller
	die     context.CancelFunc

	mu     sync.Mutex
	calls  int
	counts map[string]int // of calls, by operation and subject
	frozen time.Time      // until then
	stands time.Time      // when its newest subscription does
}

func newSimProcess(ctx context.Context, c *simCluster, name string, harms []moment) *simProcess {
	p := &simProcess{name: name, cluster: c, harms: harms, counts: map[string]int{}}
	p.ctx, p.die = context.WithCancel(ctx)
	p.bus = newBus(broker.New(broker.Broker{Publisher: p, Reader: p, Subscriber: p}, broker.EventsInfo{Incarnation: "sim", Replicas: c.replicas}), budget.New(0))
	return p
}

// enter numbers a call and decides its outcome. After an error the process is dead.
func (p *simProcess) enter(op, subject string) (number int, f fate, err error) {
	p.mu.Lock()
	p.calls++
	number = p.calls
	p.counts[op+subject]++
	luck := p.cluster.dice.at(p.name, op, subject, strconv.Itoa(p.counts[op+subject]))
	p.cluster.mu.Lock()
	f = p.cluster.faults.fate(luck)
	p.cluster.mu.Unlock()
	if p.comes(freezes, number) {
		f.freeze = 3 * defaultAckWait
	}
	if f.freeze > 0 {
		p.cluster.note("process frozen")
		p.cluster.send(p.name, "freezes for "+f.freeze.String())
		p.frozen = time.Now().Add(f.freeze)
	}
	wait := time.Until(p.frozen)
	p.mu.Unlock()
	if p.comes(diesBefore, number) {
		p.crash()
	}
	if wait > 0 {
		_ = broker.Pause(p.ctx, wait+spell(luck, quick, slow))
	}
	return number, f, p.ctx.Err()
}

func (p *simProcess) comes(what harm, call int) bool {
	for _, m := range p.harms {
		if m.process == p.name && m.call == call && m.harm == what {
			return true
		}
	}
	return false
}

func (p *simProcess) crash() {
	p.cluster.note("process died")
	p.cluster.send(p.name, "dies")
	p.die()
}

// simCaller is the key of a context's value: the client for whom a process makes its calls. Two clients that wake at the
// same instant would else draw each other's luck.
type simCaller struct{}

// exchange makes one call: serve runs at the broker, with its lock held, and answers when it will.
func exchange[T any](
	ctx context.Context, p *simProcess, op, subject string, serve func(f fate, answer func(T, error)),
) (value T, err error) {
	caller, _ := ctx.Value(simCaller{}).(string)
	number, f, err := p.enter(op, caller+subject)
	if err != nil {
		return value, err
	}
	ctx, cancel := context.WithTimeout(ctx, broker.AnswerWait)
	defer cancel()
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 2)
	answer := func(value T, err error) {
		if f.mute {
			return
		}
		time.AfterFunc(f.back, func() {
			if p.comes(diesAfter, number) {
				p.crash()
			}
			replies <- reply{value, err}
		})
	}
	p.send(f, func() { serve(f, answer) }, func(err error) {
		var nothing T
		answer(nothing, err)
	})
	select {
	case r := <-replies:
		if p.ctx.Err() != nil {
			return value, p.ctx.Err()
		}
		return r.value, r.err
	case <-p.ctx.Done():
		return value, p.ctx.Err()
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// send brings a request to the broker, which calls arrive once, twice or never, or refuse.
func (p *simProcess) send(f fate, arrive func(), refuse func(error)) {
	c := p.cluster
	deliver := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.outage > 0 {
			c.saw("outage")
			c.away = time.Now().Add(f.outage)
		}
		switch {
		case time.Now().Before(c.away):
			refuse(nats.ErrReconnectBufExceeded)
		case f.refused:
			c.saw("refused")
			refuse(nats.ErrNoResponders)
		default:
			arrive()
		}
	}
	if f.lost {
		c.note("request lost")
		return
	}
	if f.mute {
		c.note("answer lost")
	}
	time.AfterFunc(f.there, deliver)
	if f.again > 0 {
		c.note("request delivered twice")
		time.AfterFunc(f.there+f.again, deliver)
	}
}

func (p *simProcess) Publish(ctx context.Context, msg *nats.Msg) (broker.PubAck, error) {
	msg = fork(msg)
	if p.cluster.missing == noCompareAndSet {
		delete(msg.Header, jetstream.ExpectedLastSubjSeqHeader)
	}
	if p.cluster.missing == noMessageID {
		delete(msg.Header, jetstream.MsgIDHeader)
	}
	return exchange(ctx, p, "publish", msg.Subject, func(f fate, answer func(broker.PubAck, error)) {
		p.cluster.Publish(fork(msg), f, answer)
	})
}

func (p *simProcess) LastOfLeader(ctx context.Context, stream, subject string) (broker.Message, error) {
	return exchange(ctx, p, "leader", subject, func(f fate, answer func(broker.Message, error)) {
		s := p.cluster.streams[stream]
		have := len(s.messages)
		if p.cluster.missing == noLeaderRead {
			have = p.cluster.view(s, f)
		}
		m, err := s.last(subject, have)
		answer(p.anonymous(m), err)
	})
}

func (p *simProcess) FirstOfLeader(ctx context.Context, stream, subject string, from uint64) (broker.Message, error) {
	return exchange(ctx, p, "first", subject, func(_ fate, answer func(broker.Message, error)) {
		s := p.cluster.streams[stream]
		messages, _ := s.next(subject, from, len(s.messages), 1)
		if len(messages) == 0 {
			answer(broker.Message{}, broker.ErrNotFound)
			return
		}
		answer(messages[0], nil)
	})
}

func (p *simProcess) Delivered(ctx context.Context, stream, _ string) (uint64, error) {
	return exchange(ctx, p, "delivered", stream, func(_ fate, answer func(uint64, error)) {
		answer(p.cluster.streams[stream].queue.newest, nil)
	})
}

func (p *simProcess) Remove(ctx context.Context, stream string, sequence uint64) error {
	_, err := exchange(ctx, p, "remove", stream, func(_ fate, answer func(struct{}, error)) {
		p.cluster.saw("moved out of the backlog")
		p.cluster.streams[stream].removed[sequence] = true
		answer(struct{}{}, nil)
	})
	return err
}

// anonymous takes the id from what is read back when that safeguard is missing.
func (p *simProcess) anonymous(m broker.Message) broker.Message {
	if p.cluster.missing == noReadBack && m.Header != nil {
		m.Header = fork(&nats.Msg{Header: m.Header}).Header
		delete(m.Header, jetstream.MsgIDHeader)
	}
	return m
}

func (p *simProcess) LastDirect(ctx context.Context, stream, subject string) (broker.Message, error) {
	return exchange(ctx, p, "direct", subject, func(f fate, answer func(broker.Message, error)) {
		s := p.cluster.streams[stream]
		m, err := s.last(subject, p.cluster.view(s, f))
		answer(p.anonymous(m), err)
	})
}

func (p *simProcess) NextDirect(ctx context.Context, stream, subject string, from uint64) (broker.Message, error) {
	return exchange(ctx, p, "next", subject, func(f fate, answer func(broker.Message, error)) {
		s := p.cluster.streams[stream]
		messages, _ := s.next(subject, from, p.cluster.view(s, f), 1)
		if len(messages) == 0 {
			answer(broker.Message{}, broker.ErrNotFound)
			return
		}
		answer(messages[0], nil)
	})
}

type simPage struct {
	messages []broker.Message
	more     bool
}

func (p *simProcess) Page(ctx context.Context, stream, subject string, from uint64, size broker.PageSize) ([]broker.Message, bool, error) {
	if p.cluster.missing == noGapFill && p.pagedBefore(ctx, subject) {
		return nil, false, nats.ErrTimeout
	}
	got, err := exchange(ctx, p, "page", subject, func(f fate, answer func(simPage, error)) {
		s := p.cluster.streams[stream]
		if p.cluster.missing == noGapFill {
			f.page = len(s.messages)
		}
		messages, more := s.next(subject, from, p.cluster.view(s, f), min(f.page, size.Messages))
		answer(simPage{messages, more}, nil)
	})
	return got.messages, got.more, err
}

// pagedBefore reports whether a gateway has read a page of subject: what it asks for now fills a gap.
func (p *simProcess) pagedBefore(ctx context.Context, subject string) bool {
	caller, _ := ctx.Value(simCaller{}).(string)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts["page"+caller+subject] > 0 && strings.HasPrefix(p.name, "gateway")
}

func (p *simProcess) Subscribe(subject string, messages chan *nats.Msg) (stop func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cluster
	p.stands = time.Now().Add(spell(c.dice.at("subscribe", p.name, subject), quick, slow))
	sub := &simSub{process: p, subject: subject, messages: messages, stands: p.stands}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs = append(c.subs, sub)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		sub.stopped = true
	}, p.ctx.Err()
}

func (p *simProcess) Flush(ctx context.Context) error {
	p.mu.Lock()
	stands := p.stands
	p.mu.Unlock()
	_, err := exchange(ctx, p, "flush", "", func(_ fate, answer func(struct{}, error)) {
		time.AfterFunc(time.Until(stands), func() { answer(struct{}{}, nil) })
	})
	return err
}
