package eventstream

import (
	"context"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
)

// Subscription is the queue of one subscriber of a [Processor].
type Subscription struct {
	processor *Processor
	filter    Filter
	queue     chan Event    // never more than pending events, so that sending to it never blocks
	stopped   chan struct{} // closed by Stop
	done      chan struct{} // closed when the queue is no longer read
	stop      sync.Once

	// Under the processor's lock.
	attended bool // the queue is, or was, read
	pending  int  // events in the queue or in the handler
	count    SubscriberStats
}

// Subscribe calls handle for each event that f selects and that is sent from now on, one at a time, in a new goroutine.
// [Subscription.Stop] ends it. A panic of the handler is logged with its stack and counted; the next event follows.
func (p *Processor) Subscribe(f Filter, handle func(Event)) *Subscription {
	s := p.subscribe(f)
	s.attend()
	go func() {
		defer close(s.done)
		for e := range s.events(context.Background()) {
			s.call(handle, e)
		}
	}()
	return s
}

// On calls handle for each event of a type, or of every type for [Any]. It is short for Subscribe. Two subscriptions run
// concurrently; [Handlers] run one after the other.
func (p *Processor) On(kind string, handle func(Event)) *Subscription {
	return p.Subscribe(Of(kind), handle)
}

// Handlers has the handlers of one subscriber by type: pass [Handlers.Handle] to [Processor.Subscribe]. The handler of [Any]
// is called after the one of the type.
type Handlers map[string]func(Event)

// Handle calls the handlers of e.
func (h Handlers) Handle(e Event) {
	for _, kind := range []string{e.Type, Any} {
		if handle := h[kind]; handle != nil {
			handle(e)
		}
	}
}

// Watch yields each event that f selects and that is sent after the call of Watch, until ctx is done, the loop ends or the
// processor is disposed. It can be ranged over once. Until then, events are dropped when its queue is full, also with
// [Processor.SendWait].
func (p *Processor) Watch(ctx context.Context, f Filter) iter.Seq[Event] {
	s := p.subscribe(f)
	forget := context.AfterFunc(ctx, s.Stop)
	return func(yield func(Event) bool) {
		defer forget()
		defer s.Stop()
		s.attend()
		for e := range s.events(ctx) {
			if !yield(e) {
				return
			}
		}
	}
}

func (p *Processor) subscribe(f Filter) *Subscription {
	f.Types = slices.Clone(f.Types)
	s := &Subscription{
		processor: p, filter: f, queue: make(chan Event, p.options.Queue),
		stopped: make(chan struct{}), done: make(chan struct{}), count: SubscriberStats{Filter: f},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disposed {
		s.stop.Do(func() { close(s.stopped) })
		return s
	}
	p.subscribers = append(p.subscribers, s)
	return s
}

// Stop ends the subscription: the handler gets at most one more event. It does not wait, so that a handler may call it. It
// may be called again.
func (s *Subscription) Stop() {
	s.stop.Do(func() {
		close(s.stopped)
		p := s.processor
		p.mu.Lock()
		defer p.mu.Unlock()
		p.subscribers = slices.DeleteFunc(slices.Clone(p.subscribers), func(other *Subscription) bool { return other == s })
		p.moved.Broadcast()
	})
}

// Done is closed when the subscription has ended and its handler has returned.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Dropped returns the number of events that were dropped because the queue was full.
func (s *Subscription) Dropped() uint64 {
	s.processor.mu.Lock()
	defer s.processor.mu.Unlock()
	return s.count.Dropped
}

// offer puts e into the queue if it matches, or counts it as dropped if the queue is full. The caller holds the processor's
// lock.
func (s *Subscription) offer(e Event) {
	if !s.filter.Match(e) {
		return
	}
	if s.full() {
		s.count.Dropped++
		return
	}
	s.pending++
	s.queue <- e
}

func (s *Subscription) full() bool { return s.pending == cap(s.queue) }

// events yields the events of the queue until the subscription ends.
func (s *Subscription) events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			select {
			case <-s.stopped: // before an event that is queued too
				return
			case <-ctx.Done():
				return
			default:
			}
			select {
			case <-s.stopped:
				return
			case <-ctx.Done():
				return
			case e := <-s.queue:
				more := yield(e)
				s.handled()
				if !more {
					return
				}
			}
		}
	}
}

func (s *Subscription) attend() {
	s.processor.mu.Lock()
	defer s.processor.mu.Unlock()
	s.attended = true
}

// busy reports whether the queue is read and not empty. The caller holds the processor's lock.
func (s *Subscription) busy() bool { return s.attended && s.pending > 0 }

func (s *Subscription) handled() {
	p := s.processor
	p.mu.Lock()
	defer p.mu.Unlock()
	s.pending--
	s.count.Delivered++
	p.moved.Broadcast()
}

// call calls the handler and recovers from its panic.
func (s *Subscription) call(handle func(Event), e Event) {
	defer func() {
		if cause := recover(); cause != nil {
			s.panicked(cause, e)
		}
	}()
	handle(e)
}

func (s *Subscription) panicked(cause any, e Event) {
	p := s.processor
	p.log.LogAttrs(context.Background(), slog.LevelError, "a handler of events panicked", slog.Any("panic", cause),
		slog.String("type", e.Type), slog.String("id", e.ID), slog.String("stack", string(debug.Stack())))
	p.mu.Lock()
	defer p.mu.Unlock()
	s.count.Panics++
}
