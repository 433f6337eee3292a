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

	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The defaults of [Options].
const (
	DefaultMaxEvents = 1000
	DefaultQueue     = 256
)

// Options say how a [Processor] works. The zero value is what most want.
type Options struct {
	// MaxEvents is how many events are kept; older ones are forgotten (S4, maxEvents). 0 = DefaultMaxEvents.
	MaxEvents int
	// NoTrim keeps events beyond MaxEvents, until [Processor.Trim] (S4, autoTrim: false).
	NoTrim bool
	// InitialEvents are there from the start. Nobody is told of them.
	InitialEvents []Event
	// Queue is how many events may wait for one subscriber. What comes while it is full, that subscriber misses.
	// 0 = DefaultQueue.
	Queue int
	// Middleware sees each event before it is kept and before anyone is told, in the order of this list, and returns the
	// event that goes on; false drops it. It runs in the goroutine of the sender, of several senders at once.
	Middleware []func(Event) (Event, bool)
	// Schemas, where it is set, refuses events that do not fit the schema of their type.
	Schemas *Schemas
	// SessionID and Protocol are of the events that [Processor.Create] makes.
	SessionID string
	Protocol  Protocol
	// Log is told of each event, at level debug, and of handlers that panic. nil = slog.Default().
	Log *slog.Logger
}

// Protocol is what the events of a stream keep to (S0, Protocol Versioning).
type Protocol struct {
	Version    string   `json:"version"` // "" = Version
	Extensions []string `json:"extensions,omitempty"`
}

// ErrDisposed says that the processor has been disposed of.
var ErrDisposed = errors.New("the event stream has been disposed of")

// Processor keeps the newest events of one program and tells its subscribers of each (S4, AgentEventStreamProcessor).
// It is safe for concurrent use. Every subscriber gets its events in the order in which they are kept.
type Processor struct {
	options Options
	log     *slog.Logger

	mu          sync.Mutex
	moved       *sync.Cond // a subscriber has handled an event, or has gone
	disposed    bool
	events      []Event // appended to and cut from the front; what is in it never changes, so that a reader may keep a part
	subscribers []*Subscription
	count       counters
}

// New returns a processor. [Processor.Dispose] of it when it is no longer needed.
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

// Protocol tells what the events of p keep to.
func (p *Processor) Protocol() Protocol { return p.options.Protocol }

// Create makes an event of now with an id of its own; data is what becomes its members, nil for none (S4, createEvent).
// Nobody knows of it until it is sent.
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

// Send keeps e and tells its subscribers (S4, sendEvent). It waits for none of them: see [Options.Queue], and
// [Processor.SendWait] for a sender that would rather wait. Nobody may change e.Data afterwards. It fails for an event
// that has no type or does not fit its schema, and after Dispose.
func (p *Processor) Send(e Event) error {
	return p.send(context.Background(), e, false)
}

// SendWait is Send that waits, until ctx is done, for room with every subscriber who wants e: none of them misses it.
// A handler that calls it may wait for itself.
func (p *Processor) SendWait(ctx context.Context, e Event) error {
	return p.send(ctx, e, true)
}

// Emit is Create and Send (S0, emit). It returns what it sent.
func (p *Processor) Emit(kind string, data any) (Event, error) {
	e, err := p.Create(kind, data)
	if err != nil {
		return Event{}, err
	}
	return e, p.Send(e)
}

func (p *Processor) send(ctx context.Context, e Event, patient bool) error {
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
	if patient {
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

// admit checks e and passes it through the middleware, which may change it or have it dropped.
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
		if err := p.options.Schemas.Validate(e); err != nil && !errors.Is(err, ErrNoSchema) {
			return e, false, err
		}
	}
	if p.log.Enabled(ctx, slog.LevelDebug) {
		p.log.LogAttrs(ctx, slog.LevelDebug, "event", slog.String("type", e.Type), slog.String("id", e.ID),
			slog.String("sessionId", e.SessionID), slog.Time("at", e.Time), slog.String("data", string(e.Data)))
	}
	return e, true, nil
}

// check refuses what could not be written down in either form. The flat one asks for more: see [Event.AppendFlat].
func check(e Event) error {
	if e.Type == "" {
		return errNoType
	}
	if len(e.Data) > 0 && !jsontext.Value(e.Data).IsValid() {
		return fmt.Errorf("the data of a %s event is not JSON: %.40q", e.Type, string(e.Data))
	}
	return nil
}

// awaitNone waits until there is no subscriber that is such, or ctx is done. It is called under the lock.
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

// Events returns the kept events that f means, the oldest first (S4, getEvents and getEventsByType).
func (p *Processor) Events(f Filter) []Event {
	var found []Event
	for _, e := range p.kept() {
		if f.Match(e) {
			found = append(found, e)
		}
	}
	return found
}

// Last returns the last n of the kept events that f means, the oldest first (S4, limit).
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

// kept is all that is kept, for reading.
func (p *Processor) kept() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.events)
}

// ToolResult is what a tool answered (S4, getLatestToolResults).
type ToolResult struct {
	ToolCallID string          `json:"toolCallId"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"`
	Error      string          `json:"error,omitempty"` // to be looked at first: the call failed
}

// LatestToolResults returns the results of tools since the last assistant_message of a session ("" = of any); none when
// there is no such message.
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
		if err := e.Decode(&r); err == nil && spoken { // what is no result of a tool was sent by somebody else
			results = append(results, r)
		}
	}
	return results
}

const (
	assistantMessage = "assistant_message"
	toolResult       = "tool_result"
)

// Trim forgets all but the newest keep events.
func (p *Processor) Trim(keep int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimTo(max(0, keep), true)
	p.events = slices.Clone(p.events) // else what is forgotten stays in memory until others take its place
}

func (p *Processor) trimTo(keep int, wanted bool) {
	if over := len(p.events) - keep; wanted && over > 0 {
		p.events = p.events[over:]
		p.count.trimmed += uint64(over)
	}
}

// Drain waits, until ctx is done, for every subscriber to have handled what was sent. It is for the end of a program:
// while events are still being sent it may take as long as that. A handler that calls it waits for itself.
func (p *Processor) Drain(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.awaitNone(ctx, func(s *Subscription) bool { return s.busy() })
}

// Dispose forgets all events and ends all subscriptions; what still waits for a subscriber is dropped. It waits for
// nobody, so that a handler may call it: see [Processor.Drain], and [Subscription.Done].
func (p *Processor) Dispose() {
	p.mu.Lock()
	subscribers := p.subscribers
	p.disposed, p.events, p.subscribers = true, nil, nil
	p.mu.Unlock()
	for _, s := range subscribers {
		s.Stop()
	}
}
