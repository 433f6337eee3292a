package agentrunner_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

// cutOff is a bus that answers the questions with which a request is prepared only after so many attempts.
type cutOff struct {
	*bus.Bus
	records, objects, calls atomic.Int32
}

func (c *cutOff) ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error] {
	if c.records.Add(-1) >= 0 {
		return func(yield func(bus.ThreadRecord, error) bool) { yield(bus.ThreadRecord{}, errNoAnswer) }
	}
	return c.Bus.ThreadRecords(ctx, tenant, threadID, after)
}

func (c *cutOff) Object(ctx context.Context, tenant, threadID string, ref event.ObjectRef) ([]byte, error) {
	if c.objects.Add(-1) >= 0 {
		return nil, errNoAnswer
	}
	return c.Bus.Object(ctx, tenant, threadID, ref)
}

func (c *cutOff) CallTool(ctx context.Context, toolset string, call record.ToolCall) error {
	if c.calls.Add(-1) >= 0 {
		return errNoAnswer
	}
	return c.Bus.CallTool(ctx, toolset, call)
}

// always is more attempts than any test makes.
const always = 1 << 30

// TestARequestWaitsForItsDependencies takes away what the second request of a thread needs to begin, and what its tools
// need, for a while.
func TestARequestWaitsForItsDependencies(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	link := &cutOff{Bus: s.bus}
	s.link = func(parts *agentrunner.Bus) { parts.Threads, parts.Objects, parts.Tools = link, link, link }
	stop := s.runner("r1")
	first := s.say("/say hello")
	end[event.Done](s, first)
	stop()
	s.large(first)

	s.history.down = true
	link.records.Store(4)
	link.objects.Store(3)
	link.calls.Store(3)
	s.runner("r2")
	_, events := end[event.Done](s, s.say("/tool calculator {}\n/say after"))
	if claims := find[event.Claim](events); len(claims) != 1 {
		t.Errorf("it was claimed %d times, want once: %v", len(claims), names(events))
	}
	if output := find[event.ToolOutput](events); len(output) != 1 || output[0].Status != event.ToolSuccess {
		t.Errorf("its call ended with %+v", output)
	}
	if left := []int32{link.records.Load(), link.objects.Load(), link.calls.Load()}; left[0] >= 0 || left[1] >= 0 || left[2] >= 0 {
		t.Errorf("not everything was tried until it worked: %d attempts are left", left)
	}
}

// large appends a request to the thread that has an output in the object store.
func (s *stack) large(after bus.LogID) {
	s.t.Helper()
	ref, err := s.bus.PutObject(s.t.Context(), tenant, "thr_1", []byte("large"))
	if err != nil {
		s.t.Fatal(err)
	}
	accepted, next := s.record(event.AgentRequest{Messages: []event.InputMessage{event.UserText("/tool calculator {}")}})
	s.append(accepted, next)
	log := bus.LogID{Tenant: tenant, RequestID: accepted.RequestID}
	w, _, err := s.bus.Claim(s.t.Context(), log, "test", "test")
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Close()
	block := event.Block{MessageID: "msg_1", BlockID: "b0", Stage: event.StageStop}
	for _, body := range []event.Body{
		event.Input{ThreadID: "thr_1", AgentID: "demo", Messages: accepted.Request.Messages},
		event.ToolCall{Block: block, ToolCallID: "call_" + after.RequestID, Tool: "calculator", Args: []byte(`{}`)},
		event.ToolOutput{ToolCallID: "call_" + after.RequestID, Status: event.ToolSuccess, Ref: &ref},
		event.Done{ThreadID: "thr_1", FinishReason: event.FinishStop},
	} {
		if err := w.Emit(body); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := w.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// TestARequestThatWaitsCanStillEnd aborts a request whose thread cannot be read, lets the time of another pass, and hands
// a third over.
func TestARequestThatWaitsCanStillEnd(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, limit time.Duration) (*stack, *cutOff, bus.LogID, func()) {
		t.Helper()
		s := newStack(t)
		s.limit(limit)
		s.leave = 10 * time.Millisecond
		link := &cutOff{Bus: s.bus}
		s.link = func(parts *agentrunner.Bus) { parts.Threads, parts.Objects, parts.Tools = link, link, link }
		stop := s.runner("r1")
		end[event.Done](s, s.say("/say hello"))
		s.history.down = true
		link.records.Store(always)
		log := s.say("/say never")
		s.until(log, func(b event.Body) bool { return b.Name() == event.NameMetadata })
		return s, link, log, stop
	}
	t.Run("aborted", func(t *testing.T) {
		t.Parallel()
		s, link, log, _ := begin(t, time.Minute)
		if _, err := s.bus.Abort(t.Context(), tenant, record.Abort{RequestID: log.RequestID, By: "me"}); err != nil {
			t.Fatal(err)
		}
		s.until(log, func(b event.Body) bool { return b.Name() == event.NameAborted })
		link.records.Store(0) // the runner looks for the next request of the thread
	})
	t.Run("out of time", func(t *testing.T) {
		t.Parallel()
		s, link, log, _ := begin(t, 2*time.Second)
		failed, _ := end[event.Error](s, log)
		if failed.Code != apierr.StreamTimeout || !strings.Contains(failed.Message, "2s") {
			t.Errorf("got %+v, want a time-out that names the limit", failed)
		}
		link.records.Store(0)
	})
	t.Run("handed over", func(t *testing.T) {
		t.Parallel()
		s, link, log, stop := begin(t, time.Minute)
		stop()
		link.records.Store(0)
		s.runner("r2")
		_, events := end[event.Done](s, log)
		if claims := find[event.Claim](events); len(claims) != 3 || !claims[1].Released {
			t.Errorf("got claims %+v, want one that releases the request", claims)
		}
	})
}
