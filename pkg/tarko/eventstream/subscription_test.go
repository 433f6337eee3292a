package eventstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// collector collects the events of a handler.
type collector struct {
	mu     sync.Mutex
	events []eventstream.Event
}

func (h *collector) add(e eventstream.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *collector) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ids(h.events)
}

func TestSubscribersHearWhatTheyAskedFor(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{InitialEvents: []eventstream.Event{at(0, "tool_call", "")}})
	defer p.Dispose()
	var all, some, streaming, wild collector
	p.Subscribe(eventstream.Filter{}, all.add)
	p.Subscribe(eventstream.Of("tool_call", "tool_result"), some.add)
	p.Subscribe(eventstream.Filter{Streaming: true}, streaming.add)
	p.On("*", wild.add)
	one := p.On("user_message", func(eventstream.Event) { t.Error("a stopped subscriber gets events") })
	one.Stop()
	one.Stop()
	send(t, p, at(1, "user_message", ""), at(2, "assistant_streaming_tool_call", ""), at(3, "tool_call", ""), at(4, "tool_result", ""))
	drain(t, p)
	for name, tt := range map[string]struct {
		got  *collector
		want string
	}{
		"all": {&all, "e1 e2 e3 e4"}, "some": {&some, "e3 e4"}, "streaming": {&streaming, "e2"}, "wild": {&wild, "e1 e2 e3 e4"},
	} {
		if tt.got.String() != tt.want {
			t.Errorf("%s: got %s, want %s", name, tt.got, tt.want)
		}
	}
}

func TestHandlersKeepTheOrderAcrossTypes(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{})
	defer p.Dispose()
	var got, all collector
	p.Subscribe(eventstream.Filter{}, eventstream.Handlers{"a": got.add, "b": got.add, "*": all.add}.Handle)
	var want []eventstream.Event
	for n := range 100 {
		e := at(n, []string{"a", "b", "c"}[n%3], "")
		send(t, p, e)
		if e.Type != "c" {
			want = append(want, e)
		}
	}
	drain(t, p)
	if got.String() != ids(want) || all.String() != ids(p.Events(eventstream.Filter{})) {
		t.Errorf("got %s, and %s of all", &got, &all)
	}
}

// A subscriber that does not return delays no other one; what it misses is counted, and the others miss nothing.
func TestSlowSubscriberDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := eventstream.New(eventstream.Options{Queue: 2})
		release := make(chan struct{})
		var quick, slow collector
		p.Subscribe(eventstream.Filter{}, quick.add)
		stuck := p.Subscribe(eventstream.Filter{}, func(e eventstream.Event) { <-release; slow.add(e) })
		begin := time.Now()
		for n := range 5 {
			send(t, p, at(n, "x", ""))
			synctest.Wait()
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("sending took %s", took)
		}
		if quick.String() != "e0 e1 e2 e3 e4" || stuck.Dropped() != 3 {
			t.Errorf("the quick one got %s; the slow one missed %d", &quick, stuck.Dropped())
		}
		close(release)
		drain(t, p)
		send(t, p, at(5, "x", ""))
		drain(t, p)
		if slow.String() != "e0 e1 e5" {
			t.Errorf("the slow one got %s", &slow)
		}
		p.Dispose()
	})
}

func TestUnstartedWatchDoesNotBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := eventstream.New(eventstream.Options{Queue: 2})
		defer p.Dispose()
		watch := p.Watch(t.Context(), eventstream.Filter{})
		for n := range 5 {
			if err := p.SendWait(t.Context(), at(n, "x", "")); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		var seen []string
		for e := range watch {
			if seen = append(seen, e.ID); len(seen) == 2 {
				break
			}
		}
		if want := []string{at(0, "x", "").ID, at(1, "x", "").ID}; !slices.Equal(seen, want) {
			t.Errorf("got %v, want those that had room: %v", seen, want)
		}
	})
}

func TestSendWaitLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := eventstream.New(eventstream.Options{Queue: 1})
		var slow collector
		p.On("x", func(e eventstream.Event) { time.Sleep(time.Second); slow.add(e) }) // virtual time: the work of a handler
		begin := time.Now()
		for n := range 4 {
			if err := p.SendWait(t.Context(), at(n, "x", "")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("it waited for %s", took)
		}
		if err := p.SendWait(t.Context(), at(4, "y", "")); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("it waits for one who does not want the event; %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.SendWait(ctx, at(5, "x", "")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		drain(t, p)
		if slow.String() != "e0 e1 e2 e3" {
			t.Errorf("got %s", &slow)
		}
		p.Dispose()
	})
}

func TestSubscribersLeaveInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := eventstream.New(eventstream.Options{Queue: 1})
		var once *eventstream.Subscription
		var got collector
		once = p.On("x", func(e eventstream.Event) { got.add(e); once.Stop() })
		if err := errors.Join(p.SendWait(t.Context(), at(0, "x", "")), p.SendWait(t.Context(), at(1, "x", ""))); err != nil {
			t.Fatal(err)
		}
		<-once.Done()
		if got.String() != "e0" {
			t.Errorf("got %s", &got)
		}
	})
}

func TestDispose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := eventstream.New(eventstream.Options{})
		var got collector
		subscription := p.On("x", func(e eventstream.Event) { got.add(e); p.Dispose() })
		seen := 0
		watched := p.Watch(t.Context(), eventstream.Filter{})
		send(t, p, at(0, "x", ""))
		<-subscription.Done()
		for range watched { // ends: the processor is gone
			seen++
		}
		if err := p.Send(at(1, "x", "")); !errors.Is(err, eventstream.ErrDisposed) {
			t.Errorf("got %v", err)
		}
		if _, err := p.Emit("x", nil); !errors.Is(err, eventstream.ErrDisposed) {
			t.Errorf("got %v", err)
		}
		<-p.On("x", got.add).Done()
		p.Dispose()
		if got.String() != "e0" || len(p.Events(eventstream.Filter{})) != 0 || seen > 1 {
			t.Errorf("got %s, saw %d; kept %v", &got, seen, p.Events(eventstream.Filter{}))
		}
	})
}

// A handler that panics is logged, and continues with the next event.
func TestAHandlerPanics(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := eventstream.New(eventstream.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer p.Dispose()
	var got collector
	p.On("x", func(e eventstream.Event) {
		if e.ID == "e0" {
			panic("it is broken")
		}
		got.add(e)
	})
	send(t, p, at(0, "x", ""), at(1, "x", ""))
	drain(t, p)
	if got.String() != "e1" || p.Stats().Subscribers[0].Panics != 1 {
		t.Errorf("got %s, %+v", &got, p.Stats())
	}
	for _, want := range []string{"it is broken", "id=e0", "TestAHandlerPanics"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log: %s", want, &log)
		}
	}
}

func TestEachEventIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := eventstream.New(eventstream.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	send(t, p, example)
	for _, want := range []string{"type=plan_start", "id=a-1", "sessionId=s1", "at=2025-05-27T07:12:39.480Z", `\"sessionId\":\"s1\"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log: %s", want, &log)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := eventstream.New(eventstream.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		left, ended := p.Watch(ctx, eventstream.Of("x")), p.Watch(ctx, eventstream.Of("x"))
		send(t, p, at(0, "x", ""), at(1, "y", ""), at(2, "x", ""), at(3, "x", ""))
		var got collector
		for e := range left {
			if got.add(e); e.ID == "e2" {
				break
			}
		}
		if n := len(p.Stats().Subscribers); got.String() != "e0 e2" || n != 1 {
			t.Errorf("got %s; %d subscribers are left", &got, n)
		}
		got = collector{}
		for e := range ended {
			if got.add(e); e.ID == "e2" {
				cancel()
				synctest.Wait()
			}
		}
		if n := len(p.Stats().Subscribers); got.String() != "e0 e2" || n != 0 {
			t.Errorf("got %s; %d subscribers are left", &got, n)
		}
	})
}

// Many senders, subscribers, readers and leavers at once: every subscriber that stays gets every event, in the order in
// which they are kept.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const senders, each = 8, 200
	p := eventstream.New(eventstream.Options{MaxEvents: senders * each, Queue: 16})
	subscribers := make([]collector, 4)
	for i := range subscribers {
		p.Subscribe(eventstream.Filter{}, subscribers[i].add)
	}
	var work sync.WaitGroup
	for s := range senders {
		work.Go(func() {
			for n := range each {
				e := at(n, "x", "")
				e.ID = fmt.Sprintf("%d.%d", s, n)
				if err := p.SendWait(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
		work.Go(func() {
			for range each {
				p.On("x", func(eventstream.Event) {}).Stop()
				_ = p.Stats()
				_ = p.Last(10, eventstream.Of("x"))
			}
		})
	}
	work.Wait()
	drain(t, p)
	want := ids(p.Events(eventstream.Filter{}))
	for i := range subscribers {
		if got := subscribers[i].String(); got != want {
			t.Errorf("subscriber %d got %d bytes of ids, in another order than the %d that are kept", i, len(got), len(want))
		}
	}
	for s := range senders {
		last := -1
		for e := range strings.FieldsSeq(want) {
			var from, n int
			if _, err := fmt.Sscanf(e, "%d.%d", &from, &n); err != nil {
				t.Fatal(err)
			}
			if from != s {
				continue
			}
			if n != last+1 {
				t.Fatalf("of sender %d, %d comes after %d", s, n, last)
			}
			last = n
		}
	}
	p.Dispose()
}
