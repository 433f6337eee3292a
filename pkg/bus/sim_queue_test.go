package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// simQueue is a work queue with one durable consumer. What it gives to a process that shows no sign of life it gives to
// another one. It accepts any acknowledgement, as JetStream does. The cluster's lock guards it.
type simQueue struct {
	cluster *simCluster
	stream  *simStream
	name    string
	ready   []*simJob
	waiting []chan *simMsg // who has asked and got nothing yet
	newest  uint64         // sequence of the newest message that was delivered
}

// simJob is a message of a queue.
type simJob struct {
	queue    *simQueue
	msg      *nats.Msg
	sequence uint64
	round    int // counts deliveries, and the times that it became ready again
	done     bool
	deadline time.Time // for a sign of life
}

// offer gives a job to a waiting caller, or keeps it.
func (q *simQueue) offer(j *simJob) {
	if j.done {
		return
	}
	j.round++
	if len(q.waiting) == 0 {
		q.ready = append(q.ready, j)
		return
	}
	waiting := q.waiting[0]
	q.waiting = q.waiting[1:]
	waiting <- q.deliver(j)
}

func (q *simQueue) deliver(j *simJob) *simMsg {
	j.round++
	if j.round > 2 {
		q.cluster.saw("redelivery")
	}
	q.newest = max(q.newest, j.sequence)
	j.deadline = time.Now().Add(defaultAckWait)
	q.cluster.say(j.msg.Subject, fmt.Sprint("delivered, round ", j.round))
	q.watch(j, j.round)
	return &simMsg{job: j, round: j.round}
}

// watch takes a delivered job back when its deadline has passed.
func (q *simQueue) watch(j *simJob, round int) {
	time.AfterFunc(time.Until(j.deadline), func() {
		q.cluster.mu.Lock()
		defer q.cluster.mu.Unlock()
		switch {
		case j.done || j.round != round:
		case time.Now().Before(j.deadline):
			q.watch(j, round)
		default:
			q.offer(j)
		}
	})
}

// fetch waits for a message for process p. It fails when p is dead.
func (q *simQueue) fetch(p *simProcess) (*simMsg, error) {
	number, f, err := p.enter("fetch", q.name)
	if err != nil || broker.Pause(p.ctx, f.there) != nil {
		return nil, p.ctx.Err()
	}
	hears := make(chan *simMsg, 1)
	q.cluster.mu.Lock()
	q.ready = slices.DeleteFunc(q.ready, func(j *simJob) bool { return j.done })
	if len(q.ready) > 0 {
		hears <- q.deliver(q.ready[0])
		q.ready = q.ready[1:]
	} else {
		q.waiting = append(q.waiting, hears)
	}
	q.cluster.mu.Unlock()
	select {
	case m := <-hears:
		if p.comes(diesAfter, number) {
			p.crash()
		}
		m.process = p
		return m, p.ctx.Err()
	case <-p.ctx.Done():
		q.cluster.mu.Lock()
		defer q.cluster.mu.Unlock()
		q.waiting = slices.DeleteFunc(q.waiting, func(c chan *simMsg) bool { return c == hears })
		return nil, p.ctx.Err()
	}
}

// simMsg is one delivery of a job.
type simMsg struct {
	jetstream.Msg // nil: what is not defined here is never asked for
	process       *simProcess
	job           *simJob
	round         int
}

func (m *simMsg) Data() []byte         { return m.job.msg.Data }
func (m *simMsg) Headers() nats.Header { return m.job.msg.Header }
func (m *simMsg) Subject() string      { return m.job.msg.Subject }

func (m *simMsg) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: m.job.sequence}}, nil
}

func (m *simMsg) Ack() error {
	return m.send("ack", func() {
		m.job.done = true
		m.process.cluster.say(m.Subject(), "acknowledged by "+m.process.name)
		m.job.queue.stream.removed[m.job.sequence] = true
	})
}

func (m *simMsg) InProgress() error {
	return m.send("progress", func() { m.job.deadline = time.Now().Add(defaultAckWait) })
}

func (m *simMsg) Nak() error { return m.NakWithDelay(0) }

func (m *simMsg) NakWithDelay(delay time.Duration) error {
	return m.send("nak", func() {
		if m.job.round != m.round {
			return
		}
		m.job.round++
		time.AfterFunc(delay, func() {
			m.process.cluster.mu.Lock()
			defer m.process.cluster.mu.Unlock()
			m.job.queue.offer(m.job)
		})
	})
}

// send sends a message about the delivery, without a reply.
func (m *simMsg) send(what string, effect func()) error {
	number, f, err := m.process.enter(what, m.Subject())
	if err != nil {
		return err
	}
	m.process.send(f, func() {
		effect()
		if m.process.comes(diesAfter, number) {
			m.process.die()
		}
	}, func(error) {})
	return nil
}

// work is what [work] does with a real queue: it gives messages to handle, slots at a time, until p is dead.
func simWork[T any](p *simProcess, q *simQueue, slots int, before func(*simMsg), handle broker.HandleMessage[T]) {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	free := make(chan struct{}, slots)
	for {
		select {
		case free <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		m, err := q.fetch(p)
		if err != nil {
			return
		}
		before(m)
		handlers.Go(func() {
			defer func() { <-free }()
			err := broker.Serve(p.ctx, m, defaultAckWait/4, handle)
			if errors.Is(err, context.Canceled) {
				return // with its process
			}
			broker.Settle(m, err)
		})
	}
}
