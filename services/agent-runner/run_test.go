package agentrunner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestWholeRequest(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.runner("r1")
	done, events := end[event.Done](s, s.say("/think hm\n/say hello\n/tool calculator {\"expression\":\"6*7\"}\n/say done"))
	if got := texts(done.Content); got != "hello|done" || done.FinishReason != event.FinishStop || len(done.Content) != 5 {
		t.Errorf("got %+v", done)
	}
	if done.Usage.CostUSD == 0 {
		t.Error("the usage has no cost, but the model has a price")
	}
	if got := names(events)[:3]; !slices.Equal(got, []event.Name{event.NameClaim, event.NameInput, event.NameMetadata}) {
		t.Errorf("the log starts with %v", got)
	}
	for i, e := range events {
		if _, n, err := event.ParseCursor(string(e.ID)); err != nil || n != uint64(i) {
			t.Fatalf("event %d has id %s", i, e.ID)
		}
	}
}

func TestThreadContextIsKept(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		t.Run(map[bool]string{false: "by history", true: "by the stream while history is down"}[down], func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.history.down = down
			var turns []backend.Turn
			s.backend = backendFunc(func(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
				turns = append(turns, turn)
				return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta("answer"))
			})
			s.runner("r1")
			end[event.Done](s, s.say("one"))
			end[event.Done](s, s.say("two"))
			if len(turns) != 2 || len(turns[1].Messages) != 3 || turns[1].Messages[1].Role != backend.Assistant {
				t.Errorf("the second turn saw %+v", turns[1].Messages)
			}
			if s.history.asks != 1 {
				t.Errorf("history was asked %d times, want 1: a thread's first request needs none", s.history.asks)
			}
		})
	}
}

// TestSummaryIsKeptAcrossRequests has a thread outgrow its model: the next request, on another runner, continues from the summary.
func TestSummaryIsKeptAcrossRequests(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		t.Run(map[bool]string{false: "by history", true: "by the stream while history is down"}[down], func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.history.down = down
			demo := s.agents["demo"]
			demo.ContextWindow = 1_000_000
			s.agents["demo"] = demo
			var last backend.Turn
			s.backend = backendFunc(func(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
				last = turn
				return scripted.New().Run(ctx, turn, emit)
			})
			stop := s.runner("r1")
			end[event.Done](s, s.say("/say one\n/usage 900000 1"))
			_, second := end[event.Done](s, s.say("/say two\n/tool calculator {}\n/say three"))
			stop()
			s.runner("r2")
			_, third := end[event.Done](s, s.say("/say four"))
			for _, name := range []event.Name{event.NameSummary, event.NameContextCompressed} {
				if !slices.Contains(names(second), name) || slices.Contains(names(third), name) {
					t.Errorf("the second request has %v, the third %v; want a %s in the second alone", names(second), names(third), name)
				}
			}
			first, ok := last.Messages[0].Parts[0].(backend.Text)
			if !ok || !strings.HasPrefix(first.Text, "The conversation had become too long") {
				t.Errorf("the third request read %+v", last.Messages)
			}
		})
	}
}

func TestContextSelectsModel(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	demo := s.agents["demo"]
	demo.Models = []string{"larger"}
	s.agents["demo"] = demo
	models := make(chan string, 1)
	s.backend = backendFunc(func(_ context.Context, turn backend.Turn, _ backend.Emit) (backend.Outcome, error) {
		models <- turn.Model
		return backend.Outcome{Finish: event.FinishStop}, nil
	})
	s.runner("r1")
	_, events := end[event.Done](s, s.accept(event.AgentRequest{
		Messages: []event.InputMessage{event.UserText("hi")}, Context: event.Context{Model: "larger"},
	}))
	if got := <-models; got != "larger" {
		t.Errorf("the model was %q", got)
	}
	opening, ok := events[2].Body.(event.Metadata)
	if !ok || opening.Model != "larger" || opening.Provider != "scripted" {
		t.Errorf("the log opens with %+v, want the model that is asked and who answers for it", events[2].Body)
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		running      func(event.Body) bool
	}{
		{"in the middle of the model", "/say first\n/stream 100000 20", isText},
		{"in the middle of a tool", "/say first\n/tool slow {}", isResult},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.runner("r1")
			log := s.say(tt.script)
			s.until(log, tt.running)
			asked := time.Now()
			if _, err := s.bus.Abort(t.Context(), tenant, record.Abort{RequestID: log.RequestID, By: "me", Reason: "enough"}); err != nil {
				t.Fatal(err)
			}
			aborted, events := end[event.Aborted](s, log)
			if took := time.Since(asked); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			if aborted.Reason != "enough" || !strings.HasPrefix(texts(aborted.Content), "first") {
				t.Errorf("got %+v", aborted)
			}
			if open := unstopped(events); len(open) > 0 {
				t.Errorf("blocks %v have no stop", open)
			}
		})
	}
}

func TestAbortBeforeAnyRunner(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	log := s.say("/say hello")
	if _, err := s.bus.Abort(t.Context(), tenant, record.Abort{RequestID: log.RequestID, By: "me"}); err != nil {
		t.Fatal(err)
	}
	s.runner("r1")
	_, events := end[event.Aborted](s, log)
	if slices.Contains(names(events), event.NameText) {
		t.Errorf("it ran all the same: %v", names(events))
	}
}

func TestApproval(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer event.ActionResult
		status event.ToolStatus
	}{
		{"given", event.ActionResult{Status: event.ActionSuccess}, event.ToolSuccess},
		{"denied", event.ActionResult{Status: event.ActionDenied, Error: "no"}, event.ToolDenied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.runner("r1")
			done, _ := end[event.Done](s, s.say("/tool delete_file {}\n/say done"))
			if done.FinishReason != event.FinishActionRequired {
				t.Fatalf("finish reason %q", done.FinishReason)
			}
			action := s.actions.only(t)
			tt.answer.ActionID = action.ActionID
			done, events := end[event.Done](s, s.answer(tt.answer))
			if got := done.Content[0]; got.Status != tt.status || texts(done.Content) != "done" {
				t.Errorf("got %+v", done.Content)
			}
			output := find[event.ToolOutput](events)[0]
			if tt.status == event.ToolSuccess && output.Content != "deleted, allowed by "+action.ActionID {
				t.Errorf("the executor got another approval: %q", output.Content)
			}
			if len(s.actions.open) != 0 {
				t.Error("the action is still remembered")
			}
		})
	}
}

// The runner waits for the timeout of the tool and 30 s more.
func TestAnApprovedCallWithoutAnAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.runner("r1")
	end[event.Done](s, s.say("/tool silent {}\n/say done"))
	_, events := end[event.Done](s, s.answer(event.ActionResult{ActionID: s.actions.only(t).ActionID, Status: event.ActionSuccess}))
	got := find[event.ToolOutput](events)
	if len(got) != 1 || got[0].Status != event.ToolUnknown || !strings.Contains(got[0].Content, "within 31s; it may or may not have run") {
		t.Errorf("got the outputs %+v, want one that is unknown", got)
	}
}

func TestClientToolAndInput(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"/tool pick_file {}\n/say done", "/ask which?\n/say done"} {
		s := newStack(t)
		s.runner("r1")
		end[event.Done](s, s.say(script))
		action := s.actions.only(t)
		_, events := end[event.Done](s, s.answer(event.ActionResult{
			ActionID: action.ActionID, Status: event.ActionSuccess, Result: json.RawMessage(`"this"`),
		}))
		if got := find[event.ToolOutput](events); len(got) != 1 || got[0].Content != "this" {
			t.Errorf("%q: the outputs are %+v", script, got)
		}
	}
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.grace = time.Nanosecond
	stop := s.runner("r1")
	log := s.say("/say before\n/tool calculator {}\n/stream 60 20")
	chunks := 0
	s.until(log, func(b event.Body) bool {
		if text, ok := b.(event.Text); ok && text.BlockID != "b0" {
			chunks++
		}
		return chunks == 10
	})
	stop()
	s.runner("r2")
	done, events := end[event.Done](s, log)
	claims := find[event.Claim](events)
	if len(claims) != 3 || !claims[1].Released || claims[1].Runner != "r1" || claims[2].Runner != "r2" {
		t.Fatalf("the claims are %+v", claims)
	}
	if got := len(find[event.ToolOutput](events)); got != 1 {
		t.Errorf("the tool has %d results, want the one from before", got)
	}
	whole := done.Content[len(done.Content)-1].Text
	if len(done.Content) != 4 || !strings.HasPrefix(whole, "0 ") || strings.Count(whole, "59 ") != 1 {
		t.Errorf("the answer is %+v", done.Content)
	}
	discarded := 0
	for _, text := range find[event.Text](events) {
		if text.Discarded {
			discarded++
		}
	}
	if discarded != 1 {
		t.Errorf("%d blocks are discarded, want the open one", discarded)
	}
}

func TestFencedRunnerStops(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	gone := make(chan struct{})
	s.backend = backendFunc(func(ctx context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		defer close(gone)
		for {
			if err := emit(backend.TextDelta("more ")); err != nil {
				return backend.Outcome{}, err
			}
			select {
			case <-ctx.Done():
				return backend.Outcome{}, ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	s.runner("r1")
	log := s.say("continue")
	s.until(log, isText)
	w, _, err := s.bus.Claim(t.Context(), log, "r2", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the fenced runner continues")
	}
	if err := w.Emit(event.Done{}); err != nil {
		t.Fatal(err)
	}
	_, events := end[event.Done](s, log)
	after := slices.IndexFunc(events, func(e event.Event) bool { c, ok := e.Body.(event.Claim); return ok && c.Epoch == 2 })
	if rest := names(events[after:]); !slices.Equal(rest, []event.Name{event.NameClaim, event.NameDone}) {
		t.Errorf("after the second claim came %v", rest)
	}
}

func TestPoisonEnds(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	log := s.say("/say hello")
	for range 3 { // three runners claim it and die
		w, _, err := s.bus.Claim(t.Context(), log, "dead", "test")
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	s.runner("r1")
	failed, _ := end[event.Error](s, log)
	if failed.Code != apierr.AgentError || !failed.Retryable {
		t.Errorf("got %+v", failed)
	}
}

// TestAModelThatTheAgentDoesNotAllowIsNotAsked has a request whose model was allowed when it was accepted, or was never checked.
func TestAModelThatTheAgentDoesNotAllowIsNotAsked(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.backend = backendFunc(func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error) {
		t.Error("the backend was asked")
		return backend.Outcome{Finish: event.FinishStop}, nil
	})
	s.runner("r1")
	failed, _ := end[event.Error](s, s.accept(event.AgentRequest{
		Messages: []event.InputMessage{event.UserText("hi")}, Context: event.Context{Model: "larger"},
	}))
	if failed.Code != apierr.InvalidMessageFormat || !strings.Contains(failed.Message, `"larger"`) {
		t.Errorf("got %+v", failed)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.agents = map[string]config.Agent{}
	s.runner("r1")
	failed, _ := end[event.Error](s, s.say("hello"))
	if failed.Code != apierr.AgentNotFound {
		t.Errorf("an agent that is gone gives %+v", failed)
	}
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.backend = backendFunc(func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error) { panic("boom") })
	s.runner("r1")
	failed, _ := end[event.Error](s, s.say("hello"))
	if failed.Code != apierr.Internal || strings.Contains(failed.Message, "boom") {
		t.Errorf("got %+v", failed)
	}
}

func TestLargeClientResultIsStoredAside(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.runner("r1")
	end[event.Done](s, s.say("/tool pick_file {}\n/say done"))
	large := `"` + strings.Repeat("x", 300<<10) + `"`
	_, events := end[event.Done](s, s.answer(event.ActionResult{
		ActionID: s.actions.only(t).ActionID, Status: event.ActionSuccess, Result: json.RawMessage(large),
	}))
	output := find[event.ToolOutput](events)[0]
	if output.Ref == nil || output.Content != "" || output.Ref.Size != 300<<10 {
		t.Errorf("got %+v", output)
	}
	end[event.Done](s, s.say("/say the next request reads it back"))
}

type backendFunc func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error)

func (f backendFunc) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	return f(ctx, turn, emit)
}

func isText(b event.Body) bool {
	text, ok := b.(event.Text)
	return ok && text.Stage == event.StageDelta
}

func isResult(b event.Body) bool { return b.Name() == event.NameToolResult }

func find[B event.Body](events []event.Event) []B {
	var found []B
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			found = append(found, b)
		}
	}
	return found
}

// unstopped lists the blocks that started and never stopped.
func unstopped(events []event.Event) []string {
	open := map[string]bool{}
	for _, e := range events {
		var b event.Block
		switch body := e.Body.(type) {
		case event.Text:
			b = body.Block
		case event.Thinking:
			b = body.Block
		case event.ToolCall:
			b = body.Block
		case event.ToolResult:
			b = body.Block
		default:
			continue
		}
		open[b.BlockID] = b.Stage != event.StageStop
	}
	var left []string
	for id, isOpen := range open {
		if isOpen {
			left = append(left, id)
		}
	}
	return left
}
