package eventstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/eventschema"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The defaults of [Options].
const (
	DefaultMaxEvents = 1000
	DefaultQueue     = 256
)

// Options configures a [Processor]. The zero value has the defaults.
type Options struct {
	// MaxEvents is the number of events that are stored; older ones are removed. 0 = DefaultMaxEvents.
	MaxEvents int
	// NoTrim stores events beyond MaxEvents, until [Processor.Trim].
	NoTrim bool
	// InitialEvents are stored at the start. Subscribers do not get them.
	InitialEvents []Event
	// Queue is the number of events that may wait for one subscriber. While it is full, events for it are dropped.
	// 0 = DefaultQueue.
	Queue int
	// Middleware is called for each event before it is stored, in the order of this list, and returns the event to store;
	// false drops it. It runs in the goroutine of the sender, and concurrently for several senders.
	Middleware []func(Event) (Event, bool)
	// Schemas rejects events that do not match the schema of their type; nil = no check.
	Schemas *Schemas
	// SessionID and Protocol are set in the events of [Processor.Create].
	SessionID string
	Protocol  Protocol
	// Log gets each event, at level debug, and the panics of handlers. nil = slog.Default().
	Log *slog.Logger
}

// Protocol is the version of the protocol of a stream.
type Protocol struct {
	Version    string   `json:"version"` // "" = Version
	Extensions []string `json:"extensions,omitempty"`
}

// ErrDisposed means that the processor was disposed.
var ErrDisposed = errors.New("the event stream has been disposed of")

// Processor stores the newest events of one program and distributes each to its subscribers, in the order in which they are
// stored. It is safe for concurrent use.
type Processor struct {
	options Options
	log     *slog.Logger

	mu          sync.Mutex
	moved       *sync.Cond // a subscriber has handled an event or has ended
	disposed    bool
	events      []Event // appended to and cut at the front; elements never change, so that readers share them
	subscribers []*Subscription
	count       counters
}

// New returns a processor. Call [Processor.Dispose] when it is no longer needed.
func New(o Options) *Processor {
	if o.MaxEvents <= 0 {
		o.MaxEvents = DefaultMaxEvents
	}
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	if o.Protocol.Version == "" {
		o.Protocol.Version = Version
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Processor{options: o, log: o.Log, events: slices.Clone(o.InitialEvents), count: newCounters()}
	p.moved = sync.NewCond(&p.mu)
	for _, e := range p.events {
		p.count.add(e.Type)
	}
	p.trimTo(o.MaxEvents, !o.NoTrim)
	return p
}

// Protocol returns the version of the protocol of p.
func (p *Processor) Protocol() Protocol { return p.options.Protocol }

// Create returns a new event with an id and the current time; data becomes its members, nil = none. It does not send it.
func (p *Processor) Create(kind string, data any) (Event, error) {
	e := Event{
		ID: id.New("evt"), Type: kind, Time: time.Now().UTC(), SessionID: p.options.SessionID,
		Meta: Meta{Version: p.options.Protocol.Version},
	}
	if data == nil {
		return e, check(e)
	}
	members, err := jsonv2.Marshal(data, jsonv2.Deterministic(true))
	if err != nil {
		return Event{}, fmt.Errorf("encode the data of a %s event: %w", kind, err)
	}
	e.Data = members
	return e, check(e)
}

// Send stores e and puts it into the queues of the subscribers, without waiting: see [Options.Queue] and
// [Processor.SendWait]. The caller must not change e.Data afterwards. It returns an error for an event that has no type or
// does not match its schema, and after Dispose.
func (p *Processor) Send(e Event) error {
	return p.send(context.Background(), e, false)
}

// SendWait is Send, but waits until the queue of each matching subscriber has space or ctx is done, so that no event is
// dropped. A handler that calls it may deadlock until ctx is done.
func (p *Processor) SendWait(ctx context.Context, e Event) error {
	return p.send(ctx, e, true)
}

// Emit is Create and Send. It returns the event.
func (p *Processor) Emit(kind string, data any) (Event, error) {
	e, err := p.Create(kind, data)
	if err != nil {
		return Event{}, err
	}
	return e, p.Send(e)
}

func (p *Processor) send(ctx context.Context, e Event, wait bool) error {
	e, wanted, err := p.admit(ctx, e)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !wanted {
		p.count.refused++
		return nil
	}
	if wait {
		if err := p.awaitNone(ctx, func(s *Subscription) bool { return s.busy() && s.full() && s.filter.Match(e) }); err != nil {
			return err
		}
	}
	if p.disposed {
		return ErrDisposed
	}
	p.events = append(p.events, e)
	p.count.add(e.Type)
	p.trimTo(p.options.MaxEvents, !p.options.NoTrim)
	for _, s := range p.subscribers {
		s.offer(e)
	}
	return nil
}

// admit applies the middleware to e and checks the result.
func (p *Processor) admit(ctx context.Context, e Event) (_ Event, wanted bool, _ error) {
	for _, m := range p.options.Middleware {
		if e, wanted = m(e); !wanted {
			return e, false, nil
		}
	}
	if err := check(e); err != nil {
		return e, false, err
	}
	if p.options.Schemas != nil {
		if err := p.options.Schemas.Validate(e); err != nil && !errors.Is(err, eventschema.ErrNoSchema) {
			return e, false, err
		}
	}
	if p.log.Enabled(ctx, slog.LevelDebug) {
		p.log.LogAttrs(ctx, slog.LevelDebug, "event", slog.String("type", e.Type), slog.String("id", e.ID),
			slog.String("sessionId", e.SessionID), slog.Time("at", e.Time), slog.String("data", string(e.Data)))
	}
	return e, true, nil
}

// check returns an error for an event that no form can encode. The flat form has more rules: see [Event.AppendFlat].
func check(e Event) error {
	if e.Type == "" {
		return errNoType
	}
	if len(e.Data) > 0 && !jsontext.Value(e.Data).IsValid() {
		return fmt.Errorf("the data of a %s event is not JSON: %.40q", e.Type, string(e.Data))
	}
	return nil
}

// awaitNone waits until no subscriber satisfies such, or ctx is done. The caller holds the lock.
func (p *Processor) awaitNone(ctx context.Context, such func(*Subscription) bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.moved.Broadcast()
	})
	defer stop()
	for slices.ContainsFunc(p.subscribers, such) {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the subscribers of an event stream: %w", context.Cause(ctx))
		}
		p.moved.Wait()
	}
	return nil
}

// Events returns the stored events that f selects, oldest first.
func (p *Processor) Events(f Filter) []Event {
	var found []Event
	for _, e := range p.kept() {
		if f.Match(e) {
			found = append(found, e)
		}
	}
	return found
}

// Last returns the last n stored events that f selects, oldest first.
func (p *Processor) Last(n int, f Filter) []Event {
	var found []Event
	for _, e := range slices.Backward(p.kept()) {
		if len(found) >= n {
			break
		}
		if f.Match(e) {
			found = append(found, e)
		}
	}
	slices.Reverse(found)
	return found
}

// kept returns the stored events, which must not be changed.
func (p *Processor) kept() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.events)
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	ToolCallID string          `json:"toolCallId"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"`
	Error      string          `json:"error,omitempty"` // set if the call failed
}

// LatestToolResults returns the results of tools after the last assistant_message of a session ("" = any session); nil
// without such a message.
func (p *Processor) LatestToolResults(sessionID string) []ToolResult {
	events := p.Events(Filter{Types: []string{assistantMessage, toolResult}, SessionID: sessionID})
	var results []ToolResult
	spoken := false
	for _, e := range events {
		if e.Type == assistantMessage {
			results, spoken = nil, true
			continue
		}
		var r ToolResult
		if err := e.Decode(&r); err == nil && spoken { // other members: an event of an application
			results = append(results, r)
		}
	}
	return results
}

const (
	assistantMessage = "assistant_message"
	toolResult       = "tool_result"
)

// Trim removes all but the newest keep events.
func (p *Processor) Trim(keep int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimTo(max(0, keep), true)
	p.events = slices.Clone(p.events) // releases the memory of the removed events
}

func (p *Processor) trimTo(keep int, wanted bool) {
	if over := len(p.events) - keep; wanted && over > 0 {
		p.events = p.events[over:]
		p.count.trimmed += uint64(over)
	}
}

// Drain waits until the subscribers have handled all events, or ctx is done. Call it at the end of a program: it does not
// return while other goroutines send events. A handler must not call it.
func (p *Processor) Drain(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.awaitNone(ctx, func(s *Subscription) bool { return s.busy() })
}

// Dispose removes all events and ends all subscriptions; queued events are dropped. It does not wait for handlers, so that a
// handler may call it: see [Processor.Drain] and [Subscription.Done].
func (p *Processor) Dispose() {
	p.mu.Lock()
	subscribers := p.subscribers
	p.disposed, p.events, p.subscribers = true, nil, nil
	p.mu.Unlock()
	for _, s := range subscribers {
		s.Stop()
	}
}
