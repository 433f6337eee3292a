package mcp

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Before version 2026-07-28 of the protocol, a server asks by a request of its own while the call is open. Nothing in that
// request names the call, so such a call has a connection for itself; and nothing but this process can answer it, so the
// call stays open until the user has answered, or for holdTime.
const (
	holdTime = 15 * time.Minute // for the user to answer
	maxOpen  = 64               // calls with a connection of their own, of one server
)

var errNoLongerOpen = &tool.UnknownError{What: "the MCP server has asked the user in the middle of the call, and the call is no longer open"}

// openCall is a call that runs at such a server.
type openCall struct {
	name   string
	ctx    context.Context //nolint:containedctx // of the call, which outlives the function that began it
	cancel context.CancelFunc
	dialog dialog // whose answers are given again if the server asks the same
	asks   chan elicitation
	ended  chan ending   // has the end of the call
	left   chan struct{} // closed when it has left its connection
	answer chan<- *sdk.ElicitResult

	mu sync.Mutex
	to *receiver
}

func (c *openCall) say(line string) { c.receiver().say(line) }

func (c *openCall) emit(text []byte) {
	c.mu.Lock() // no event goes to a receiver that another one has replaced
	defer c.mu.Unlock()
	c.to.emit(text)
}

func (c *openCall) receiver() *receiver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.to
}

// turn has the call report to another receiver, and returns the events that the earlier one has.
func (c *openCall) turn(to *receiver) []event.Custom {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.to.emitted()
	c.to = to
	return before
}

// elicitation is a question of a server that waits for its answer.
type elicitation struct {
	params *sdk.ElicitParams
	answer chan<- *sdk.ElicitResult
}

type ending struct {
	result *sdk.CallToolResult
	err    error
}

// asking says for which call a connection exists. The zero value is a connection for all calls.
type asking struct {
	taken atomic.Bool
	call  atomic.Pointer[openCall]
}

// ask returns the user's answer to a question of the server. Without a call it declines.
func (a *asking) ask(ctx context.Context, p *sdk.ElicitParams) *sdk.ElicitResult {
	c := a.call.Load()
	if c == nil {
		return &sdk.ElicitResult{Action: actionDecline}
	}
	if given := c.dialog.given(p); given != nil {
		return given
	}
	answer := make(chan *sdk.ElicitResult, 1)
	late := time.NewTimer(holdTime)
	defer late.Stop()
	select {
	case c.asks <- elicitation{p, answer}:
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	select {
	case result := <-answer:
		return result
	case <-late.C:
		c.cancel() // its result would have no reader
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	return &sdk.ElicitResult{Action: actionCancel}
}

// given returns the answer that the user gave to the same question before; nil = none.
func (d *dialog) given(p *sdk.ElicitParams) *sdk.ElicitResult {
	asked, err := askOf(p)
	if err != nil {
		return nil
	}
	for name, request := range d.Requests {
		before, ok := request.(*sdk.ElicitParams)
		if !ok || d.Answers[name] == nil {
			continue
		}
		ask, err := askOf(before)
		if err == nil && ask.Question == asked.Question && ask.URL == asked.URL && bytes.Equal(ask.Schema, asked.Schema) {
			return d.Answers[name]
		}
	}
	return nil
}

// openCalls are the open calls of a source.
type openCalls struct {
	places  chan struct{}
	running sync.WaitGroup

	mu    sync.Mutex
	over  bool
	all   map[*openCall]bool
	asked map[string]*openCall // those that wait for the user, by name
}

func newOpenCalls() *openCalls {
	return &openCalls{places: make(chan struct{}, maxOpen), all: map[*openCall]bool{}, asked: map[string]*openCall{}}
}

// begin runs a call until it has ended.
func (o *openCalls) begin(ctx context.Context, in invocation, run func(*openCall) ending) *openCall {
	c := &openCall{name: id.New("mcp"), dialog: in.dialog, asks: make(chan elicitation), ended: make(chan ending, 1), left: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.to = in.to
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		c.cancel()
	}
	o.all[c] = true
	o.running.Go(func() {
		defer c.cancel()
		end := run(c)
		close(c.left)
		c.ended <- end
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.all, c)
		delete(o.asked, c.name)
	})
	return c
}

// stop cancels a call, and waits until it has left its connection, but not for a server that does not read.
func (c *openCall) stop() {
	c.cancel()
	select {
	case <-c.left:
	case <-time.After(leaveTime):
	}
}

// wait keeps a call until the user has answered.
func (o *openCalls) wait(c *openCall) {
	c.turn(waiting())
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[c] {
		o.asked[c.name] = c
	}
}

// take returns a call that waits for the user; nil = it is not open here, or another process continues it.
func (o *openCalls) take(name string) *openCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.asked[name]
	delete(o.asked, name)
	return c
}

// end cancels all calls, and waits for them.
func (o *openCalls) end() {
	o.mu.Lock()
	o.over = true
	for c := range o.all {
		c.cancel()
	}
	o.mu.Unlock()
	o.running.Wait()
}

// sendLive runs a call on a connection for this call, until it has ended or asks the user.
func (s *Source) sendLive(ctx context.Context, shared *link, in invocation) (*link, reply, error) {
	l, release, err := s.connection(ctx, shared)
	if err != nil {
		return nil, reply{}, err
	}
	c := s.open.begin(ctx, in, func(c *openCall) ending {
		l.asking.call.Store(c)
		defer release()
		defer l.asking.call.Store(nil)
		token, done := s.calls.follow(in.call.ID, c)
		defer done()
		result, err := l.session.CallTool(c.ctx, in.params(c.ctx, token))
		return ending{result, err}
	})
	r, err := s.follow(ctx, in, c)
	return l, r, err
}

// connection returns a connection for one call: the source's if no other call has it, else a new one.
func (s *Source) connection(ctx context.Context, l *link) (_ *link, release func(), err error) {
	select {
	case s.open.places <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	free := func() { <-s.open.places }
	if l.asking.taken.CompareAndSwap(false, true) {
		return l, func() { l.asking.taken.Store(false); free() }, nil
	}
	own, err := s.connect(ctx)
	if err != nil {
		free()
		return nil, nil, apierr.Wrap(err, apierr.ToolError,
			"the MCP server %s accepts no connection for the call, so the call did not run; try again later", s.options.Name)
	}
	return own, func() { own.close(); free() }, nil
}

// resume gives the answer of the user to a call that waits for it.
func (s *Source) resume(ctx context.Context, in invocation, c *openCall) (reply, error) {
	for _, meanwhile := range c.turn(in.to) {
		_ = in.to.add(meanwhile) // fails if it has no room
	}
	c.answer <- in.Answers[in.Asked]
	return s.follow(ctx, in, c)
}

// follow waits until a call has ended or asks the user. When ctx ends first, the call is cancelled.
func (s *Source) follow(ctx context.Context, in invocation, c *openCall) (reply, error) {
	for {
		select {
		case q := <-c.asks:
			ask, err := in.live(c.name, q.params)
			if err != nil {
				q.answer <- &sdk.ElicitResult{Action: actionDecline} // the server may continue without
				continue
			}
			c.answer = q.answer
			s.open.wait(c)
			return reply{ask: ask}, nil
		case end := <-c.ended:
			return reply{result: end.result}, end.err
		case <-ctx.Done():
			c.cancel()
			return reply{}, ctx.Err()
		}
	}
}

// live adds a question that a server has asked in the middle of a call.
func (d *dialog) live(call string, p *sdk.ElicitParams) (*tool.Ask, error) {
	requests := sdk.InputRequestMap{}
	maps.Copy(requests, d.Requests)
	d.Requests, d.Live, d.Asked = requests, call, strconv.Itoa(len(requests))
	d.Requests[d.Asked] = p
	return d.ask(p)
}
