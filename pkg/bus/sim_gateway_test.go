package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/event"
)

// simGateway is a model of the gateway: it accepts requests as that does.
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

// simPatience bounds one call of a client.
const simPatience = 20 * time.Second

// accept takes a call, which may have been taken before.
func (g *simGateway) accept(ctx context.Context, c simCall) error {
	accepted, err := g.known(ctx, c)
	if err != nil {
		return err
	}
	for range 3 + c.queue {
		thread, err := g.thread(ctx, c.threadID)
		if err != nil {
			return err
		}
		if accepted {
			if placed, err := g.resume(ctx, thread, c); err != nil || placed {
				return err
			}
		}
		behind, err := g.admit(ctx, thread, c)
		if err != nil {
			return g.refuse(ctx, c, err)
		}
		if done, err := g.place(ctx, thread, c, behind, &accepted); done || err != nil {
			return err
		}
	}
	return g.refuse(ctx, c, errSimBusy)
}

// refuse says no to a call, unless the same call has got its place meanwhile.
func (g *simGateway) refuse(ctx context.Context, c simCall, refusal error) error {
	known, err := g.known(ctx, c)
	if err != nil {
		return err
	}
	if !known {
		return refusal
	}
	thread, err := g.thread(ctx, c.threadID)
	if err != nil {
		return err
	}
	placed, err := g.resume(ctx, thread, c)
	if err == nil && !placed {
		return refusal
	}
	return err
}

// known reports whether a call was accepted before.
func (g *simGateway) known(ctx context.Context, c simCall) (bool, error) {
	_, err := g.bus.Accepted(ctx, LogID{simTenant, c.requestID})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// place writes a call down, if that has not been done, and makes it the next one on its thread. It has not done that when
// somebody else was faster.
func (g *simGateway) place(ctx context.Context, after ThreadRecord, c simCall, behind int, accepted *bool) (bool, error) {
	a := command.Accepted{
		Tenant: simTenant, RequestID: c.requestID, ThreadID: c.threadID, AgentID: "demo",
		Owner: g.name + "/" + strconv.FormatInt(time.Now().UnixNano(), 36),
	}
	if c.resolves != "" {
		a.Request.Context.ActionResults = []event.ActionResult{{ActionID: c.resolves}}
	}
	if !*accepted {
		*accepted = true
		if again, err := g.write(ctx, a); err != nil || again {
			return false, err
		}
	}
	mine, err := g.advance(ctx, after, c, behind)
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, g.start(ctx, a, mine)
}

func (g *simGateway) write(ctx context.Context, a command.Accepted) (again bool, err error) {
	op := g.world.begin(registerFirst, "accept/"+a.RequestID, a.Owner, "")
	stored, first, err := g.bus.Accept(ctx, a)
	op.returns(stored.Owner, first, err)
	return !first, err
}

// thread reads the newest record of a thread, a zero one where there is none.
func (g *simGateway) thread(ctx context.Context, threadID string) (ThreadRecord, error) {
	op := g.world.begin(registerSwap, "thread/"+threadID, "", "")
	thread, err := g.bus.Thread(ctx, simTenant, threadID)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	op.returns(strconv.FormatUint(thread.Sequence, 10), false, err)
	return thread, err
}

func (g *simGateway) advance(ctx context.Context, after ThreadRecord, c simCall, behind int) (ThreadRecord, error) {
	next := command.Thread{ThreadID: c.threadID, RequestID: c.requestID, Behind: behind}
	if c.resolves != "" {
		next.Resolves = []string{c.resolves}
	}
	if after.ThreadID != "" {
		next.Index = after.Index + 1
	}
	op := g.world.begin(registerSwap, "thread/"+c.threadID, g.name+"/"+c.requestID, strconv.FormatUint(after.Sequence, 10))
	mine, err := g.bus.AdvanceThread(ctx, simTenant, next, after.Sequence)
	if errors.Is(err, ErrConflict) {
		op.returns("", false, nil)
		return mine, err
	}
	op.returns(strconv.FormatUint(mine.Sequence, 10), true, err)
	return mine, err
}

// line returns the requests of a thread that have not ended.
func (g *simGateway) line(ctx context.Context, newest ThreadRecord) ([]ThreadRecord, error) {
	if newest.ThreadID == "" {
		return nil, nil
	}
	var line []ThreadRecord
	for record, err := range g.bus.ThreadRecords(ctx, simTenant, newest.ThreadID, 0) {
		if err != nil {
			return nil, err
		}
		if record.Index < newest.Index-newest.Behind {
			continue
		}
		last, err := g.bus.Last(ctx, LogID{simTenant, record.RequestID})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if !last.Terminal() {
			line = append(line, record)
		}
	}
	return line, nil
}

// urge points the runners at the first of the line, if nobody has begun it.
func (g *simGateway) urge(ctx context.Context, line []ThreadRecord) error {
	if len(line) == 0 {
		return nil
	}
	log := LogID{simTenant, line[0].RequestID}
	if _, err := g.bus.Last(ctx, log); !errors.Is(err, ErrNotFound) {
		return err
	}
	return g.world.point(ctx, g.bus, line[0])
}

// admit says how far behind the first of the line the call stands, or why it may not wait.
func (g *simGateway) admit(ctx context.Context, thread ThreadRecord, c simCall) (behind int, err error) {
	line, err := g.line(ctx, thread)
	if err != nil {
		return 0, err
	}
	if len(line) == 0 {
		if c.resolves != "" && thread.RequestID != g.world.announces[c.resolves] {
			return 0, errSimResolved
		}
		return 0, nil
	}
	if err := g.urge(ctx, line); err != nil {
		return 0, err
	}
	for _, one := range line {
		if c.resolves != "" && slices.Contains(one.Resolves, c.resolves) {
			return 0, errSimResolved
		}
	}
	if c.resolves != "" || len(line) > c.queue {
		return 0, errSimBusy
	}
	return thread.Index + 1 - line[0].Index, nil
}

// start sees to it that a runs when its turn comes.
func (g *simGateway) start(ctx context.Context, a command.Accepted, mine ThreadRecord) error {
	if mine.Behind == 0 {
		return g.bus.Start(ctx, a, mine.Index)
	}
	line, err := g.line(ctx, mine)
	if err != nil {
		return err
	}
	return g.urge(ctx, line)
}

// resume reports whether a call that was accepted before is past what accept does, and starts it as far as it may be.
func (g *simGateway) resume(ctx context.Context, newest ThreadRecord, c simCall) (bool, error) {
	_, err := g.bus.Last(ctx, LogID{simTenant, c.requestID})
	if !errors.Is(err, ErrNotFound) {
		return err == nil, err
	}
	placed := false
	for record, err := range g.bus.ThreadRecords(ctx, simTenant, c.threadID, 0) {
		if err != nil {
			return false, err
		}
		placed = placed || record.RequestID == c.requestID
	}
	if !placed {
		return false, nil
	}
	line, err := g.line(ctx, newest)
	if err != nil {
		return false, err
	}
	return true, g.urge(ctx, line)
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
		c.world.cluster.tell(c.name, fmt.Sprintf("asks %s to %s", g.name, what))
		err := do(context.WithValue(g.ctx, simCaller{}, c.name), g)
		c.world.cluster.tell(c.name, fmt.Sprintf("hears of %s: %v", what, err))
		for _, final := range []error{nil, errSimBusy, errSimResolved, ErrEnded} {
			if errors.Is(err, final) {
				return err
			}
		}
		luck := c.world.dice.at("again", c.name, strconv.Itoa(c.turn))
		if pause(c.world.ctx, spell(luck, 40*slow, 60*slow)) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// post makes a request, again and again with the same key.
func (c *simClient) post(call simCall) error {
	err := c.ask("post "+call.requestID, func(ctx context.Context, g *simGateway) error {
		ctx, cancel := context.WithTimeout(ctx, simPatience)
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
		if !errors.Is(err, errSimBusy) || pause(c.world.ctx, time.Second) != nil {
			return err
		}
	}
}

// watch reads a request's log to its end, and resumes where a gateway has failed it.
func (c *simClient) watch(requestID string) error {
	s := &simSession{log: LogID{simTenant, requestID}}
	c.world.reads(s)
	return c.ask("watch "+requestID, func(ctx context.Context, g *simGateway) error {
		f, err := g.bus.Follow(ctx, s.log, s.n)
		if err != nil {
			return err
		}
		defer f.Close()
		for {
			frame, err := f.Next(ctx, rarestLook)
			switch {
			case errors.Is(err, io.EOF):
				s.ended = true
				return nil
			case errors.Is(err, ErrIdle):
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
		ctx, cancel := context.WithTimeout(ctx, simPatience)
		defer cancel()
		if _, err := g.bus.Accepted(ctx, LogID{simTenant, requestID}); err != nil {
			return err
		}
		last, err := g.bus.Last(ctx, LogID{simTenant, requestID})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if last.Terminal() {
			return ErrEnded
		}
		op := c.world.begin(registerFirst, "abort/"+requestID, c.name+time.Now().String(), "")
		first, err := g.bus.Abort(ctx, simTenant, command.Abort{RequestID: requestID, By: op.input.value, At: time.Now()})
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
		ctx, cancel := context.WithTimeout(ctx, simPatience)
		defer cancel()
		last, err := g.bus.Last(ctx, LogID{simTenant, requestID})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if last.Terminal() {
			return ErrEnded
		}
		op := c.world.begin(registerFirst, "steer/"+requestID+"/"+steerID, c.name+time.Now().String(), "")
		stored, first, err := g.bus.Steer(ctx, simTenant, command.Steer{RequestID: requestID, SteerID: steerID, By: op.input.value})
		op.returns(stored.By, first, err)
		if err == nil {
			c.world.steerTaken(requestID, steerID)
		}
		return err
	})
}
