package eventstream

import (
	"context"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
)

// Subscription is one subscriber's place at a [Processor]: a queue of its own, with the events that it has yet to see.
type Subscription struct {
	processor *Processor
	filter    Filter
	queue     chan Event    // never more than pending events, so that sending to it never blocks
	stopped   chan struct{} // closed by Stop
	done      chan struct{} // closed when nobody reads the queue any more
	stop      sync.Once

	// Under the processor's lock.
	attended bool // somebody reads the queue, or has
	pending  int  // events in the queue or in the handler
	count    SubscriberStats
}

// Subscribe calls handle for each event that f means and that is sent from now on, one after the other, in a goroutine
// of its own (S4, subscribe, subscribeToTypes and subscribeToStreamingEvents). [Subscription.Stop] of what it returns
// unsubscribes. A handler that panics loses that event alone: the panic is logged with its stack and counted.
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

// On calls handle for each event of a type, or of every type for [Any] (S0, on). It is short for Subscribe. Two
// subscriptions hear what they hear beside each other; for one after the other use [Handlers].
func (p *Processor) On(kind string, handle func(Event)) *Subscription {
	return p.Subscribe(Of(kind), handle)
}

// Handlers are what one subscriber does about events of several types, in the order in which the events came: give
// [Handlers.Handle] to [Processor.Subscribe]. That of [Any] is called after that of the type.
type Handlers map[string]func(Event)

// Handle calls the functions that are meant for e.
func (h Handlers) Handle(e Event) {
	for _, kind := range []string{e.Type, Any} {
		if handle := h[kind]; handle != nil {
			handle(e)
		}
	}
}

// Watch yields each event that f means and that is sent from the call of Watch on, until ctx is done, the loop is left
// or the processor is disposed of. It is Subscribe for programs that would rather have a loop, and can be ranged over
// once. Until that begins nobody waits for it: it misses what its queue has no room for.
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

// Stop ends the subscription: the handler gets at most the event that it is being handed at this moment. It waits for
// nothing, so that a handler may call it, and may be called again.
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

// Done is closed when the subscription has ended and its handler has returned for the last time.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Dropped tells how many events the subscriber has missed because its queue was full.
func (s *Subscription) Dropped() uint64 {
	s.processor.mu.Lock()
	defer s.processor.mu.Unlock()
	return s.count.Dropped
}

// offer puts e into the queue, if it is wanted and there is room. It is called under the processor's lock.
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

// events yields what comes, until the subscription ends.
func (s *Subscription) events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			select {
			case <-s.stopped: // rather than an event that waits as well
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

// busy reports whether somebody is about to read what the queue holds. It is called under the processor's lock.
func (s *Subscription) busy() bool { return s.attended && s.pending > 0 }

func (s *Subscription) handled() {
	p := s.processor
	p.mu.Lock()
	defer p.mu.Unlock()
	s.pending--
	s.count.Delivered++
	p.moved.Broadcast()
}

// call hands e over, and survives what the handler does.
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
