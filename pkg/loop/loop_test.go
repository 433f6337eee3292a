package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestAbort(t *testing.T) {
	t.Parallel()
	mute := backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		_ = emit(backend.TextDelta("before "))
		time.Sleep(3 * time.Second) // ignores its context
		err := emit(backend.TextDelta("late"))
		return backend.Outcome{Finish: event.FinishStop}, err
	})
	tests := []struct {
		name, script string
		backend      backend.Model
		content      string
	}{
		{"cuts a text", "/stream 10000 1", nil, "0 "},
		{"does not wait for a backend that ignores it", "hello", mute, "before "},
		{"cuts a tool", "/say first\n/tool slow {}", nil, "first"},
		{"does not wait for a tool that ignores it", "/say first\n/tool stubborn {}", nil, "first"},
		{"cuts a wait", "/say first\n/sleep 1h", nil, "first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th := newThread(t)
				if tt.backend != nil {
					th.backend = tt.backend
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				time.AfterFunc(500*time.Millisecond, func() { cancel(&Abort{Reason: "enough"}) })
				if err := th.run(ctx, event.AgentRequest{Messages: []event.InputMessage{event.UserText(tt.script)}}); err != nil {
					t.Fatal(err)
				}
				aborted := last[event.Aborted](t, th.log.events)
				if took := th.log.events[len(th.log.events)-1].Time.Sub(start); took > 1500*time.Millisecond {
					t.Errorf("it took %s", took)
				}
				if aborted.Reason != "enough" || !strings.HasPrefix(texts(aborted.Content), tt.content) || aborted.Usage == nil {
					t.Errorf("got %+v", aborted)
				}
				if open := unstopped(th.log.events); len(open) > 0 {
					t.Errorf("blocks %v have no stop", open)
				}
				for _, r := range find[event.ToolResult](th.log.events) {
					if r.Stage == event.StageStop && r.Status != event.ToolAborted {
						t.Errorf("the tool ended with %q", r.Status)
					}
				}
			})
		})
	}
}

func TestAbortThatCameFirstWins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		th.backend = backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			th.aborted = &Abort{Reason: "just in time"} // taken while the model says its last word
			return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta("all"))
		})
		if got := last[event.Aborted](t, th.say("hello")); texts(got.Content) != "all" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	bubble := func(name string, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	bubble("turns", func(t *testing.T) {
		th := newThread(t)
		th.agent.Turns = 2
		done := last[event.Done](t, th.say("/tool calculator {}\n/tool calculator {}\n/tool calculator {}\n/say never"))
		if done.FinishReason != event.FinishMaxTurns || len(done.Content) != 4 {
			t.Errorf("got %+v", done)
		}
	})
	bubble("tokens", func(t *testing.T) {
		th := newThread(t)
		th.agent.Tokens = 100
		done := last[event.Done](t, th.say("/usage 90 20\n/tool calculator {}\n/say never"))
		if done.FinishReason != event.FinishBudget || done.Usage.InputTokens != 90 {
			t.Errorf("got %+v", done)
		}
	})
	bubble("money", func(t *testing.T) {
		th := newThread(t)
		th.agent.CostUSD = 0.5
		th.backend = backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			err := errors.Join(emit(backend.CallStart{Name: "calculator"}), emit(backend.CallDelta{Args: "{}"}))
			return backend.Outcome{Finish: event.FinishToolCalls, Usage: event.Usage{CostUSD: 0.3}}, err
		})
		done := last[event.Done](t, th.say("continue"))
		if done.FinishReason != event.FinishBudget || done.Usage.CostUSD != 0.6 {
			t.Errorf("got %+v", done)
		}
	})
	bubble("time", func(t *testing.T) {
		th := newThread(t)
		th.agent.Time = time.Minute
		failed := last[event.Error](t, th.say("/say first\n/sleep 1h"))
		if failed.Code != apierr.StreamTimeout || !failed.Retryable {
			t.Errorf("got %+v", failed)
		}
	})
	bubble("time continues over a takeover", func(t *testing.T) {
		th := newThread(t)
		th.agent.Time = time.Minute
		th.say("/sleep 10s\n/say done")
		th.takeover(nil, 2)
		time.Sleep(2 * time.Minute)
		if err := th.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		last[event.Error](t, th.log.events)
	})
}

func TestFinishReasonsPassThrough(t *testing.T) {
	t.Parallel()
	for _, reason := range []event.FinishReason{event.FinishLength, event.FinishContentFilter, event.FinishRefusal} {
		th := newThread(t)
		th.backend = says(reason, backend.TextDelta("so"))
		if got := last[event.Done](t, th.say("hello")).FinishReason; got != reason {
			t.Errorf("got %q, want %q", got, reason)
		}
	}
	th := newThread(t)
	th.backend = says(event.FinishContentFilter, backend.CallStart{Name: "calculator"})
	done := last[event.Done](t, th.say("hello"))
	if done.FinishReason != event.FinishContentFilter || len(done.Content) != 1 {
		t.Errorf("a filtered turn's call ran: %+v", done)
	}
}

// says is a backend whose first turn gives chunks, and whose second says "after".
func says(finish event.FinishReason, chunks ...backend.Chunk) backend.Model {
	first := true
	return backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		if !first {
			return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta("after"))
		}
		first = false
		for _, c := range chunks {
			if err := emit(c); err != nil {
				return backend.Outcome{}, err
			}
		}
		return backend.Outcome{Finish: finish}, nil
	})
}

func TestArguments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		status     event.ToolStatus
		deltas     string
	}{
		{"an object is passed on", `{"a":1}`, event.ToolSuccess, `{"a":1}`},
		{"nothing is an empty object", "", event.ToolSuccess, "{}"},
		{"an array is refused", `[1]`, event.ToolFailed, `[1]`},
		{"half an object is refused", `{"a":`, event.ToolFailed, `{"a":`},
		{"a member given twice is refused", `{"a":1,"a":2}`, event.ToolFailed, `{"a":1,"a":2}`},
		{"what is not UTF-8 is refused", "{\"a\":\"\xff\"}", event.ToolFailed, "{\"a\":\"\uFFFD\"}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			th := newThread(t)
			th.backend = says(event.FinishToolCalls, backend.CallStart{Index: 3, Name: "calculator"}, backend.CallDelta{Index: 3, Args: tt.args})
			events := th.say("go")
			if got := find[event.ToolOutput](events)[0]; got.Status != tt.status {
				t.Errorf("got %+v", got)
			}
			var deltas strings.Builder
			for _, c := range find[event.ToolCall](events) {
				deltas.WriteString(c.Delta)
			}
			if deltas.String() != tt.deltas {
				t.Errorf("the deltas are %q", deltas.String())
			}
			if texts(last[event.Done](t, events).Content) != "after" {
				t.Error("the model did not get to react")
			}
			if strings.Contains(lines(events), "invalid UTF-8") {
				t.Error("an event cannot be encoded")
			}
		})
	}
}

func TestInterleavedCalls(t *testing.T) {
	t.Parallel()
	th := newThread(t)
	th.backend = says(event.FinishToolCalls,
		backend.TextDelta("let me"), backend.CallStart{Index: 0, Name: "calculator"}, backend.CallStart{Index: 1, Name: "calculator"},
		backend.CallDelta{Index: 1, Args: `{"b":`}, backend.CallDelta{Index: 0, Args: `{"a":1}`}, backend.CallDelta{Index: 1, Args: `2}`},
		backend.TextDelta("and so"))
	done := last[event.Done](t, th.say("go"))
	want := []string{"text", "tool_use", "tool_use", "text", "tool_result", "tool_result", "text"}
	var got []string
	for _, c := range done.Content {
		got = append(got, c.Type)
	}
	if !slices.Equal(got, want) || string(done.Content[1].Args) != `{"a":1}` || string(done.Content[2].Args) != `{"b":2}` {
		t.Errorf("got %v\n%+v", got, done.Content)
	}
}

func TestBackendMistakes(t *testing.T) {
	t.Parallel()
	boom := backendFunc(func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error) { panic("secret") })
	leak := backendFunc(func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error) {
		return backend.Outcome{}, errors.New("password is secret")
	})
	many := make([]backend.Chunk, 0, maxCalls+1)
	for i := range maxCalls + 1 {
		many = append(many, backend.CallStart{Index: i, Name: "calculator"})
	}
	tests := []struct {
		name    string
		backend backend.Model
		code    apierr.Code
	}{
		{"a panic", boom, apierr.Internal},
		{"an error without a code", leak, apierr.Internal},
		{"arguments before their call", says("", backend.CallDelta{Args: "{}"}), apierr.Internal},
		{"a call started twice", says("", backend.CallStart{}, backend.CallStart{}), apierr.Internal},
		{"too many calls", says("", many...), apierr.AgentError},
		{"endless arguments", says("", backend.CallStart{Name: "calculator"},
			backend.CallDelta{Args: strings.Repeat("x", maxArgsBytes+1)}), apierr.AgentError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			th := newThread(t)
			th.backend = tt.backend
			failed := last[event.Error](t, th.say("go"))
			if failed.Code != tt.code || strings.Contains(failed.Message, "secret") {
				t.Errorf("got %+v", failed)
			}
			if open := unstopped(th.log.events); len(open) > 0 {
				t.Errorf("blocks %v have no stop", open)
			}
		})
	}
}

func TestPanickingToolEndsTheRequestAlone(t *testing.T) {
	t.Parallel()
	th := newThread(t)
	if got := last[event.Error](t, th.say("/tools broken {}; calculator {}")); got.Code != apierr.Internal {
		t.Errorf("got %+v", got)
	}
}

func TestLongTextContinuesInTheNextBlock(t *testing.T) {
	t.Parallel()
	th := newThread(t)
	text := strings.Repeat("ä\x01", 200<<10)
	th.backend = says(event.FinishStop, backend.TextDelta(text))
	events := th.say("go")
	done := last[event.Done](t, events)
	var whole strings.Builder
	for _, e := range find[event.Text](events) {
		whole.WriteString(e.Text)
	}
	if whole.String() != text {
		t.Error("the blocks do not add up to the text")
	}
	for _, e := range events {
		line, err := event.Encode(e)
		if err != nil || len(line) > 900<<10 {
			t.Errorf("a %s event has %d bytes: %v", e.Body.Name(), len(line), err)
		}
	}
	if string(done.Extra.JSON()) != `{"truncated":true}` || len(done.Content) == 0 {
		t.Errorf("the terminal event repeats %d blocks and says %s", len(done.Content), done.Extra.JSON())
	}
}

func TestLongOutputIsStoredAside(t *testing.T) {
	t.Parallel()
	th := newThread(t)
	output := find[event.ToolOutput](th.say("/tool long {}\n/say done"))[0]
	if output.Ref == nil || output.Content != "" || len(th.objects["obj"]) != 5*maxOutputBytes {
		t.Errorf("got %+v", output)
	}
	for _, m := range th.state.Messages() {
		for _, p := range m.Parts {
			if r, ok := p.(backend.Result); ok && len(r.Content) != 5*maxOutputBytes {
				t.Error("the model does not get the whole output")
			}
		}
	}
}

func TestExpiredActionIsDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		th.agent.ActionTTL = time.Hour
		th.say("/tools pick_file {}; delete_file {}\n/say done")
		answered := event.ActionResult{ActionID: th.pending[0].ActionID, Status: event.ActionSuccess}
		time.Sleep(2 * time.Hour)
		events := th.answer(answered)
		outputs := find[event.ToolOutput](events)
		if len(outputs) != 2 || outputs[1].Status != event.ToolDenied || !strings.HasPrefix(outputs[1].Content, "expired") {
			t.Errorf("got %+v", outputs)
		}
	})
}

func TestApprovalIsForItsArguments(t *testing.T) {
	t.Parallel()
	th := newThread(t)
	before := th.say("/tool delete_file {\"path\":\"a\"}\n/say done")
	for i, e := range before {
		if c, ok := e.Body.(event.Continuation); ok {
			c.Payload.ArgsHash = strings.Repeat("0", 64)
			before[i].Body = c
		}
	}
	th.state = newThread(t).state
	th.state.Fold(before...)
	events := th.answer(event.ActionResult{ActionID: th.pending[0].ActionID, Status: event.ActionSuccess})
	if got := find[event.ToolOutput](events)[0]; got.Status != event.ToolDenied {
		t.Errorf("got %+v", got)
	}
}

func TestDrainLeavesTheRequestOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		going := errors.New("going down")
		time.AfterFunc(time.Second, func() { cancel(going) })
		err := th.run(ctx, event.AgentRequest{Messages: []event.InputMessage{event.UserText("/tool slow {}")}})
		if !errors.Is(err, going) {
			t.Errorf("got error %v", err)
		}
		for _, e := range th.log.events {
			if event.IsTerminal(e.Body) || e.Body.Name() == event.NameToolOutput {
				t.Errorf("it wrote %s", e.Body.Name())
			}
		}
	})
}

func TestLostLogStopsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		fenced := errors.New("fenced")
		n := 0
		th.backend = backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			for {
				if n++; n == 5 {
					th.log.mu.Lock()
					th.log.lost = fenced
					th.log.mu.Unlock()
				}
				if err := emit(backend.TextDelta("x")); err != nil {
					return backend.Outcome{}, errors.New("something about a closed stream")
				}
			}
		})
		err := th.run(t.Context(), event.AgentRequest{Messages: []event.InputMessage{event.UserText("go")}})
		if !errors.Is(err, fenced) || n != 5 {
			t.Errorf("got error %v after %d chunks", err, n)
		}
	})
}
