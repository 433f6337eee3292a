package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/records"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/threadqueue"
)

// simGateway is a model of the gateway. It puts requests on their threads as the gateway does, by [threadqueue.Queue].
type simGateway struct {
	*simProcess
	world *simWorld
}

// simCall is a request that a client makes.
type simCall struct {
	requestID string
	threadID  string
	queue     int    // how many may wait on the thread; 0 = none
	resolves  string // an action
}

var (
	errSimBusy     = errors.New("the thread is busy")
	errSimResolved = errors.New("the action is resolved, or not open")
)

// simCallTimeout bounds one call of a client.
const simCallTimeout = 20 * time.Second

// accept takes a call, which may have been taken before.
func (g *simGateway) accept(ctx context.Context, c simCall) error {
	a := record.Accepted{
		Tenant: simTenant, RequestID: c.requestID, ThreadID: c.threadID, AgentID: "demo",
		Owner: g.name + "/" + strconv.FormatInt(time.Now().UnixNano(), 36),
	}
	if c.resolves != "" {
		a.Request.Context.ActionResults = []event.ActionResult{{ActionID: c.resolves}}
	}
	admission := simAdmission{g, c, threadqueue.New(simThreads{g.bus, g.world, g.name}, time.Now)}
	stored, recorded, err := admission.Recorded(ctx, a)
	if err != nil {
		return err
	}
	_, _, err = admission.queue.Put(ctx, admission, stored, recorded, 3+c.queue)
	if errors.Is(err, broker.ErrConflict) {
		return errSimBusy
	}
	return err
}

// simThreads notes the compare-and-sets of threads.
type simThreads struct {
	*Bus
	world *simWorld
	name  string
}

func (l simThreads) AdvanceThread(ctx context.Context, tenant string, next record.Thread, after uint64) (records.ThreadRecord, error) {
	op := l.world.begin(registerSwap, "thread/"+next.ThreadID, l.name+"/"+next.RequestID, strconv.FormatUint(after, 10))
	mine, err := l.Bus.AdvanceThread(ctx, tenant, next, after)
	if errors.Is(err, broker.ErrConflict) {
		op.returns("", false, nil)
		return mine, err
	}
	op.returns(strconv.FormatUint(mine.Sequence, 10), true, err)
	return mine, err
}

// simAdmission decides about one call.
type simAdmission struct {
	*simGateway
	call  simCall
	queue *threadqueue.Queue
}

// Recorded implements threadqueue.Admission.
func (m simAdmission) Recorded(ctx context.Context, a record.Accepted) (stored record.Accepted, found bool, err error) {
	stored, err = m.bus.Accepted(ctx, broker.LogID{Tenant: simTenant, RequestID: a.RequestID})
	if errors.Is(err, broker.ErrNotFound) {
		return a, false, nil
	}
	return stored, err == nil, err
}

// Record implements threadqueue.Admission.
func (m simAdmission) Record(ctx context.Context, a record.Accepted) (stored record.Accepted, again bool, err error) {
	op := m.world.begin(registerFirst, "accept/"+a.RequestID, a.Owner, "")
	stored, first, err := m.bus.Accept(ctx, a)
	op.returns(stored.Owner, first, err)
	return stored, !first, err
}

// Thread implements threadqueue.Admission.
func (m simAdmission) Thread(ctx context.Context, a record.Accepted) (records.ThreadRecord, error) {
	op := m.world.begin(registerSwap, "thread/"+a.ThreadID, "", "")
	thread, err := m.bus.Thread(ctx, simTenant, a.ThreadID)
	if errors.Is(err, broker.ErrNotFound) {
		err = nil
	}
	op.returns(strconv.FormatUint(thread.Sequence, 10), false, err)
	return thread, err
}

// Admit implements threadqueue.Admission.
func (m simAdmission) Admit(
	ctx context.Context, newest records.ThreadRecord, entries []threadqueue.Entry, _ record.Accepted,
) (behind int, err error) {
	c := m.call
	if len(entries) == 0 {
		if c.resolves != "" && newest.RequestID != m.world.announces[c.resolves] {
			return 0, errSimResolved
		}
		return 0, nil
	}
	if _, err := m.queue.EnsureFirst(ctx, entries); err != nil {
		return 0, err
	}
	for _, entry := range entries {
		if c.resolves != "" && slices.Contains(entry.Resolves, c.resolves) {
			return 0, errSimResolved
		}
	}
	if c.resolves != "" || len(entries) > c.queue {
		return 0, errSimBusy
	}
	return threadqueue.Behind(newest, entries), nil
}

// simClient talks to the gateways in turn, and goes to another one when one fails it.
type simClient struct {
	world *simWorld
	name  string
	turn  int
}

// ask has some gateway do something, until it succeeds or says no.
func (c *simClient) ask(what string, do func(context.Context, *simGateway) error) error {
	for {
		g := c.world.gateways[c.turn%len(c.world.gateways)]
		c.turn++
		c.world.cluster.send(c.name, fmt.Sprintf("asks %s to %s", g.name, what))
		err := do(context.WithValue(g.ctx, simCaller{}, c.name), g)
		c.world.cluster.send(c.name, fmt.Sprintf("receives %s: %v", what, err))
		for _, final := range []error{nil, errSimBusy, errSimResolved, broker.ErrEnded} {
			if errors.Is(err, final) {
				return err
			}
		}
		luck := c.world.dice.at("again", c.name, strconv.Itoa(c.turn))
		if broker.Pause(c.world.ctx, spell(luck, 40*slow, 60*slow)) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// post makes a request, again and again with the same key.
func (c *simClient) post(call simCall) error {
	err := c.ask("post "+call.requestID, func(ctx context.Context, g *simGateway) error {
		ctx, cancel := context.WithTimeout(ctx, simCallTimeout)
		defer cancel()
		return g.accept(ctx, call)
	})
	if err == nil || errors.Is(err, errSimBusy) || errors.Is(err, errSimResolved) {
		c.world.answered(call, err == nil)
	}
	return err
}

// insist makes a request until the thread is free for it.
func (c *simClient) insist(call simCall) error {
	for {
		err := c.post(call)
		if !errors.Is(err, errSimBusy) || broker.Pause(c.world.ctx, time.Second) != nil {
			return err
		}
	}
}

// watch reads a request's log to its end, and resumes where a gateway has failed it.
func (c *simClient) watch(requestID string) error {
	s := &simSession{log: broker.LogID{Tenant: simTenant, RequestID: requestID}}
	c.world.reads(s)
	return c.ask("watch "+requestID, func(ctx context.Context, g *simGateway) error {
		f, err := g.bus.Follow(ctx, s.log, s.n)
		if err != nil {
			return err
		}
		defer f.Close()
		for {
			frame, err := f.Next(ctx, broker.LongestCheck)
			switch {
			case errors.Is(err, io.EOF):
				s.ended = true
				return nil
			case errors.Is(err, broker.ErrIdle):
				continue
			case err != nil:
				return err
			}
			s.take(frame)
		}
	})
}

// abort asks for the end of a request.
func (c *simClient) abort(requestID string) error {
	return c.ask("abort "+requestID, func(ctx context.Context, g *simGateway) error {
		ctx, cancel := context.WithTimeout(ctx, simCallTimeout)
		defer cancel()
		if _, err := g.bus.Accepted(ctx, broker.LogID{Tenant: simTenant, RequestID: requestID}); err != nil {
			return err
		}
		last, err := g.bus.Last(ctx, broker.LogID{Tenant: simTenant, RequestID: requestID})
		if err != nil && !errors.Is(err, broker.ErrNotFound) {
			return err
		}
		if last.Terminal() {
			return broker.ErrEnded
		}
		op := c.world.begin(registerFirst, "abort/"+requestID, c.name+time.Now().String(), "")
		first, err := g.bus.Abort(ctx, simTenant, record.Abort{RequestID: requestID, By: op.input.value, At: time.Now()})
		op.returns("", first, err)
		if err == nil {
			c.world.abortTaken(requestID)
		}
		return err
	})
}

// steer says something to a request.
func (c *simClient) steer(requestID, steerID string) error {
	return c.ask("steer "+requestID, func(ctx context.Context, g *simGateway) error {
		ctx, cancel := context.WithTimeout(ctx, simCallTimeout)
		defer cancel()
		last, err := g.bus.Last(ctx, broker.LogID{Tenant: simTenant, RequestID: requestID})
		if err != nil && !errors.Is(err, broker.ErrNotFound) {
			return err
		}
		if last.Terminal() {
			return broker.ErrEnded
		}
		op := c.world.begin(registerFirst, "steer/"+requestID+"/"+steerID, c.name+time.Now().String(), "")
		stored, first, err := g.bus.Steer(ctx, simTenant, record.Steer{RequestID: requestID, SteerID: steerID, By: op.input.value})
		op.returns(stored.By, first, err)
		if err == nil {
			c.world.steerTaken(requestID, steerID)
		}
		return err
	})
}
