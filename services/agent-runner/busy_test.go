package agentrunner_test

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// wait puts a request on the thread behind those that have not ended. As a gateway does, it sends no pointer.
func (s *stack) wait(text string, behind int) bus.LogID {
	s.t.Helper()
	accepted, next := s.record(event.AgentRequest{Messages: []event.InputMessage{event.UserText(text)}})
	next.Behind = behind
	s.append(accepted, next)
	return bus.LogID{Tenant: tenant, RequestID: accepted.RequestID}
}

func (s *stack) abort(log bus.LogID, at time.Time) {
	s.t.Helper()
	a := record.Abort{RequestID: log.RequestID, By: "me", Reason: "enough", At: at}
	if _, err := s.bus.Abort(s.t.Context(), tenant, a); err != nil {
		s.t.Fatal(err)
	}
}

// opened is when the first event of a log was stored.
func opened(s *stack, log bus.LogID) time.Time {
	s.t.Helper()
	for f, err := range s.bus.Read(s.t.Context(), log, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		return f.Time
	}
	s.t.Fatalf("%s has no log", log.RequestID)
	return time.Time{}
}

func closed(s *stack, log bus.LogID) time.Time {
	s.t.Helper()
	f, err := s.bus.Last(s.t.Context(), log)
	if err != nil || !f.Terminal() {
		s.t.Fatalf("%s has not ended: %v", log.RequestID, err)
	}
	return f.Time
}

func TestRequestsOfAThreadRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.runner("r1")
	s.runner("r2")
	first := s.say("/stream 20 40")
	s.until(first, isText)
	logs := []bus.LogID{first, s.wait("/say two", 1), s.wait("/say three", 2)}
	for i, log := range logs {
		end[event.Done](s, log)
		if i > 0 && opened(s, log).Before(closed(s, logs[i-1])) {
			t.Errorf("request %d began before the one before it had ended", i)
		}
	}
}

func TestAnAbortedRequestThatWaitsEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.sweep = 5 * time.Second
	s.runner("r1")
	first := s.say("/stream 100000 20")
	s.until(first, isText)
	second, third := s.wait("/say two", 1), s.wait("/say three", 2)
	s.abort(second, time.Now())
	s.history.lists(second, time.Now()) // where the message of the abort is lost, the sweep finds it
	aborted, events := end[event.Aborted](s, second)
	if aborted.Reason != "enough" || len(find[event.Text](events)) > 0 || len(find[event.Input](events)) != 1 {
		t.Errorf("got %+v in %v", aborted, names(events))
	}
	if _, err := s.bus.Last(t.Context(), third); err == nil {
		t.Error("the third request began though the first one runs")
	}
	s.abort(first, time.Now())
	end[event.Aborted](s, first)
	end[event.Done](s, third)
}

func TestACrashBetweenTheEndAndTheNextPointerIsRepaired(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first := s.say("/say one")
	second := s.wait("/say two", 1)
	w, _, err := s.bus.Claim(t.Context(), first, "dead", "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Emit(event.Done{}); err != nil {
		t.Fatal(err)
	}
	w.Close() // the runner dies before it points at the second one, and the first one's pointer comes again
	s.runner("r1")
	end[event.Done](s, second)
}

func TestTheSweep(t *testing.T) {
	t.Parallel()
	long := time.Now().Add(-time.Hour)
	// lost puts a request on the thread and loses its pointer.
	lost := func(s *stack, at time.Time) bus.LogID {
		accepted, next := s.record(event.AgentRequest{Messages: []event.InputMessage{event.UserText("/say hello")}})
		accepted.At = at
		s.append(accepted, next)
		log := bus.LogID{Tenant: tenant, RequestID: accepted.RequestID}
		s.history.lists(log, at)
		return log
	}
	claimed := func(s *stack, log bus.LogID) {
		w, _, err := s.bus.Claim(t.Context(), log, "dead", "test", event.Input{
			ThreadID: "thr_1", AgentID: "demo", Messages: []event.InputMessage{event.UserText("/say hello")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Emit(event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStart}}); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	tests := []struct {
		name  string
		given func(*stack) bus.LogID
		end   event.Name
	}{
		{"sends a pointer for a request without one", func(s *stack) bus.LogID { return lost(s, long) }, event.NameDone},
		{"points at one that began and whose pointer is lost", func(s *stack) bus.LogID {
			log := lost(s, time.Now())
			claimed(s, log)
			return log
		}, event.NameDone},
		{"points at the second of a thread when the first has ended", func(s *stack) bus.LogID {
			first := s.say("/say one")
			w, _, err := s.bus.Claim(t.Context(), first, "dead", "test")
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Emit(event.Done{}); err != nil {
				t.Fatal(err)
			}
			w.Close()
			return lost(s, long)
		}, event.NameDone},
		{"ends one that is past its time", func(s *stack) bus.LogID {
			s.limit(time.Millisecond)
			log := lost(s, long)
			claimed(s, log)
			return log
		}, event.NameError},
		{"ends one that was aborted and has no runner", func(s *stack) bus.LogID {
			log := lost(s, long)
			claimed(s, log)
			s.abort(log, long)
			return log
		}, event.NameAborted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.sweep = 100 * time.Millisecond
			log := tt.given(s)
			s.runner("r1")
			events := s.until(log, event.IsTerminal)
			got := events[len(events)-1].Body
			if got.Name() != tt.end {
				t.Errorf("it ended with %#v, want %s", got, tt.end)
			}
			if failed, ok := got.(event.Error); ok && failed.Code != "stream_timeout" {
				t.Errorf("got %+v", failed)
			}
			if open := unstopped(events); len(open) > 0 {
				t.Errorf("blocks %v have no stop", open)
			}
		})
	}
}

func TestTheSweepLeavesAloneWhatRuns(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.sweep = 50 * time.Millisecond
	s.runner("r1")
	s.runner("r2")
	log := s.say("/sleep 2s\n/say hello")
	s.history.lists(log, time.Now().Add(-time.Hour))
	_, events := end[event.Done](s, log)
	if claims := find[event.Claim](events); len(claims) != 1 {
		t.Errorf("it was claimed %d times", len(claims))
	}
}

func TestSteer(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.runner("r1")
	log := s.say("/stream 20 40")
	s.until(log, isText)
	for range 2 { // the same one twice
		_, _, err := s.bus.Steer(t.Context(), tenant, record.Steer{
			RequestID: log.RequestID, SteerID: "steer_1", By: "me",
			Messages: []event.InputMessage{event.UserText("/say and more")}, At: time.Now(),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	done, events := end[event.Done](s, log)
	inputs := find[event.Input](events)
	if len(inputs) != 2 || inputs[1].SteerID != "steer_1" || done.Content[len(done.Content)-1].Text != "and more" {
		t.Errorf("got %+v after %+v", done.Content, inputs)
	}
}
