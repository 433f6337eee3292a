package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// worker is a backend that keeps sessions and runs its own tools: what it says in each turn is a list of chunks.
type worker struct {
	backend.Model // unused: see thread.backend
	turns         [][]backend.Chunk
	outcome       backend.Outcome
	starts        []backend.Start
	asked         []backend.Turn
	stopped       int
}

func (w *worker) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	w.starts = append(w.starts, start)
	return w, nil
}

func (w *worker) Stop(context.Context) error {
	w.stopped++
	return nil
}

func (w *worker) Transport() backend.Transport { return backend.LocalAgent }

func (w *worker) Send(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	w.asked = append(w.asked, turn)
	if len(w.turns) == 0 {
		return backend.Outcome{}, errors.New("there is nothing left to say")
	}
	chunks := w.turns[0]
	w.turns = w.turns[1:]
	for _, c := range chunks {
		if err := emit(c); err != nil {
			return backend.Outcome{Usage: w.outcome.Usage}, err
		}
	}
	outcome := w.outcome
	outcome.Finish = event.FinishStop
	return outcome, nil
}

// errand is a turn in which an agent runs two tools at once, and then a third.
func errand() []backend.Chunk {
	return []backend.Chunk{
		backend.State{ID: "s1"},
		backend.ThinkingDelta("hm"),
		backend.TextDelta("I look."),
		backend.Plan{Steps: []event.PlanStep{{Content: "look"}}},
		backend.ToolStarted{ID: "t1", Name: "Read", Args: json.RawMessage(`{"path":"a"}`)},
		backend.ToolStarted{ID: "t2", Name: "Bash"},
		backend.Step{Usage: event.Usage{InputTokens: 10, OutputTokens: 2}, Model: "m1"},
		backend.ToolProgress{ID: "t2", Delta: "half"},
		backend.ToolEnded{ID: "t2", Status: event.ToolFailed, Content: "no such command\nat all"},
		backend.ToolEnded{ID: "t1", Content: "A"},
		backend.TextDelta("Once more."),
		backend.ToolStarted{ID: "t3", Name: "Edit", Args: json.RawMessage(`{"path":"a"}`)},
		backend.Step{Usage: event.Usage{InputTokens: 12, OutputTokens: 3}, Model: "m1"},
		backend.ToolEnded{ID: "t3", Content: "edited", Summary: "a: +1 -1"},
		backend.Plan{Steps: []event.PlanStep{{Content: "look", Done: true}}},
		backend.TextDelta("Done."),
		backend.State{ID: "s1", Used: event.Usage{InputTokens: 40, OutputTokens: 9, CostUSD: 0.5}},
	}
}

func newWorker(turns ...[]backend.Chunk) *worker {
	return &worker{turns: turns, outcome: backend.Outcome{
		Model: "m1", Usage: event.Usage{InputTokens: 40, OutputTokens: 9, CostUSD: 0.5},
	}}
}

func TestToolsOfAnAgentAreLoggedAndNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		w := newWorker(errand())
		th.backend = w
		done := last[event.Done](t, th.say("do it"))
		var shape []string
		for _, c := range done.Content {
			shape = append(shape, fmt.Sprintf("%s %s%s%s", c.Type, c.Text, c.Name, c.Status))
		}
		want := []string{
			"thinking ", "text I look.", "tool_use Read", "tool_result Readsuccess", "tool_use Bash", "tool_result Basherror",
			"text Once more.", "tool_use Edit", "tool_result Editsuccess", "text Done.",
		}
		if !slices.Equal(shape, want) {
			t.Errorf("the answer is %q, want %q", shape, want)
		}
		if done.Usage != w.outcome.Usage {
			t.Errorf("it has used %+v, want what the agent says in the end", done.Usage)
		}
		usage := find[event.UsageSoFar](th.log.events)
		if len(usage) != 3 || usage[0].Turns != 1 || usage[0].InputTokens != 10 || usage[1].InputTokens != 22 || usage[2].Turns != 3 {
			t.Errorf("the turns are %+v", usage)
		}
		for _, c := range find[event.ToolCall](th.log.events) {
			if c.Stage == event.StageStop && !c.ByAgent {
				t.Errorf("call %s is not said to be the agent's", c.Tool)
			}
		}
		outputs := find[event.ToolOutput](th.log.events)
		if len(outputs) != 3 || outputs[0].Content != "no such command\nat all" || len(find[event.Plan](th.log.events)) != 2 {
			t.Errorf("the outputs are %+v", outputs)
		}
		if open := unstopped(th.log.events); len(open) > 0 || w.stopped != 1 {
			t.Errorf("%v is open, and the session was stopped %d times", open, w.stopped)
		}
	})
}

func TestTheNextRequestResumesTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		w := newWorker(errand(), []backend.Chunk{backend.TextDelta("And more.")})
		th.backend = w
		th.say("do it")
		th.say("and more")
		first, second := w.starts[0], w.starts[1]
		if first.State.ID != "" || w.asked[0].Known != 0 {
			t.Errorf("the first request resumed %+v", first)
		}
		if second.State.ID != "s1" || second.State.Used.CostUSD != 0.5 {
			t.Errorf("the second request resumed %+v", second.State)
		}
		turn := w.asked[1]
		if fresh := turn.Messages[turn.Known:]; len(fresh) != 1 || fresh[0].Role != backend.User {
			t.Errorf("of %d messages the session has %d, want all but the last", len(turn.Messages), turn.Known)
		}
	})
}

func TestTakeoverResumesSessionAndKeepsToolResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		th.backend = newWorker(errand())
		all := th.say("do it")
		for n := 2; n < len(all); n++ {
			th.log.events = all
			w := newWorker([]backend.Chunk{
				backend.ToolStarted{ID: "t1", Name: "Read"}, backend.ToolEnded{ID: "t1"}, backend.TextDelta("Finished."),
			})
			th.backend = w
			th.takeover(nil, n)
			before := folded(th.log.events)
			if err := th.resume(t.Context()); err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			last[event.Done](t, th.log.events)
			if len(w.starts) == 1 && w.starts[0].State != before.Session() {
				t.Errorf("after %d events it resumed %+v, want %+v", n, w.starts[0].State, before.Session())
			}
			if len(w.asked) == 1 && w.asked[0].Known != 0 {
				t.Errorf("after %d events the session counts as having a turn that had not ended", n)
			}
			ids := map[string]int{}
			for _, o := range find[event.ToolOutput](th.log.events) {
				if ids[o.ToolCallID]++; ids[o.ToolCallID] > 1 {
					t.Errorf("after %d events a call has two outputs", n)
				}
			}
			if open := unstopped(th.log.events); len(open) > 0 {
				t.Errorf("after %d events %v is left open", n, open)
			}
		}
	})
}

func TestAnAgentIsStoppedAtItsLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		limit  func(*Agent)
		finish event.FinishReason
	}{
		{"of turns, one later than set", func(a *Agent) { a.Turns = 1 }, event.FinishMaxTurns},
		{"of tokens", func(a *Agent) { a.Tokens = 12 }, event.FinishBudget},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th := newThread(t)
				w := newWorker(errand())
				th.backend = w
				tt.limit(&th.agent)
				done := last[event.Done](t, th.say("do it"))
				if done.FinishReason != tt.finish || strings.Contains(texts(done.Content), "Done.") {
					t.Errorf("it finished with %q after %q", done.FinishReason, texts(done.Content))
				}
				if open := unstopped(th.log.events); len(open) > 0 || len(th.state.Waiting()) > 0 {
					t.Errorf("%v is open, %v waits", open, th.state.Waiting())
				}
				if left := w.asked[0].Limits; left.Turns == 0 {
					t.Errorf("it got no limit: %+v", left)
				}
			})
		})
	}
}

func TestToolsThatAnAgentDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		th.backend = newWorker([]backend.Chunk{
			backend.ToolStarted{ID: "t1", Name: "Bash", Args: json.RawMessage(`[not an object`)}, backend.TextDelta("Bye."),
		}, []backend.Chunk{backend.TextDelta("Hello again.")})
		last[event.Done](t, th.say("do it"))
		if outputs := find[event.ToolOutput](th.log.events); len(outputs) != 1 || outputs[0].Status != event.ToolUnknown {
			t.Errorf("the outputs are %+v, want one that is unknown", outputs)
		}
		last[event.Done](t, th.say("continue")) // no approval is asked for the call, nor is it run
	})
}

func TestWhatAnAgentMustNotSay(t *testing.T) {
	t.Parallel()
	tests := map[string][]backend.Chunk{
		"a tool started twice":         {backend.ToolStarted{ID: "t"}, backend.ToolStarted{ID: "t"}},
		"progress of none":             {backend.ToolProgress{ID: "t", Delta: "x"}},
		"the end of none":              {backend.ToolEnded{ID: "t"}},
		"a tool that starts once more": {backend.ToolStarted{ID: "t"}, backend.ToolEnded{ID: "t"}, backend.ToolStarted{ID: "t"}},
	}
	for name, chunks := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th := newThread(t)
				th.backend = newWorker(chunks)
				last[event.Error](t, th.say("do it"))
				if open := unstopped(th.log.events); len(open) > 0 {
					t.Errorf("%v is left open", open)
				}
			})
		})
	}
}

func TestLongAgentOutputIsTruncated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		args := json.RawMessage(`{"text":"` + strings.Repeat("x", maxArgsBytes) + `"}`)
		th.backend = newWorker([]backend.Chunk{
			backend.ToolStarted{ID: "t", Name: strings.Repeat("n", 100), Args: args},
			backend.ToolEnded{ID: "t", Content: strings.Repeat("long ", maxOutputBytes)},
		})
		last[event.Done](t, th.say("do it"))
		for line := range strings.SplitSeq(lines(th.log.events), "\n") {
			if len(line) > 2*maxOutputBytes {
				t.Errorf("an event has %d bytes: %.100s", len(line), line)
			}
		}
	})
}

func TestAPersonAllowsACallThatTheAgentRunsItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		answer  event.ActionStatus
		status  event.ToolStatus
		content string
	}{
		{"allowed", event.ActionSuccess, event.ToolSuccess, "the user allowed this call"},
		{"denied", event.ActionDenied, event.ToolDenied, "the user denied this call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				th := newThread(t)
				var asked []backend.Message
				th.backend = backendFunc(func(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
					if asked = turn.Messages; len(asked) > 1 {
						return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta("so be it"))
					}
					return backend.Outcome{Finish: event.FinishToolCalls}, errors.Join(
						emit(backend.CallStart{Name: "deploy", Gate: backend.GateAgentApproval}),
						emit(backend.CallDelta{Args: `{"to":"prod"}`}), emit(backend.CallSignature{Signature: "i1"}))
				})
				action := only(t, th.say("deploy"))
				if action.Kind != event.ContinueApproval || action.Payload.Tool != "deploy" || string(action.Payload.Args) != `{"to":"prod"}` {
					t.Fatalf("got the action %+v, want an approval of deploy", action)
				}
				last[event.Done](t, th.answer(event.ActionResult{ActionID: action.ActionID, Status: tt.answer}))
				call, result := asked[1].Parts[0].(backend.Call), asked[2].Parts[0].(backend.Result)
				if call.Signature != "i1" || result.ID != call.ID || result.Status != tt.status || result.Content != tt.content {
					t.Errorf("got the call %+v and the result %+v, want %s, %q", call, result, tt.status, tt.content)
				}
			})
		})
	}
}

func TestATurnIsSentAgainWhenItsConnectionWasCut(t *testing.T) {
	t.Parallel()
	cut := func(chunks ...backend.Chunk) attempt {
		e := apierr.Wrap(backend.ErrCut, apierr.AgentError, "the answer broke off")
		e.Retryable = true
		return attempt{chunks: chunks, err: e}
	}
	for _, tt := range []struct {
		name     string
		onCrash  bool
		attempts []attempt
		asked    int
		text     string // of the answer; "" = the request fails
	}{
		{"with the same answer, which is not written twice", false, []attempt{cut(backend.TextDelta("o"))}, 2, "ok"},
		{"with another answer", false, []attempt{cut(backend.TextDelta("no"))}, 2, "ok"},
		{"twice", false, []attempt{cut(), cut()}, 3, "ok"},
		{"not three times", false, []attempt{cut(), cut(), cut()}, 3, ""},
		{"not with onCrash: error", true, []attempt{cut()}, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				th := newThread(t)
				model := flaky(&asked, tt.attempts...)
				th.agent.FailOnCrash, th.backend = tt.onCrash, remote{model}
				events := th.say("hi")
				if len(asked) != tt.asked {
					t.Errorf("got %d turns, want %d", len(asked), tt.asked)
				}
				if tt.text == "" {
					last[event.Error](t, events)
				} else if done := last[event.Done](t, events); len(done.Content) != 1 || done.Content[0].Text != tt.text {
					t.Errorf("got the answer %+v, want %q alone", done.Content, tt.text)
				}
			})
		})
	}
}

// remote is a model behind a connection.
type remote struct{ backend.Model }

func (remote) Transport() backend.Transport { return backend.Remote }

func TestToolsThatRanBeforeACutArePartOfTheConversation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turns []backend.Turn
		th := newThread(t)
		th.backend = remote{backendFunc(func(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			turns = append(turns, turn)
			if len(turns) == 2 {
				return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta("done"))
			}
			for _, c := range []backend.Chunk{
				backend.ToolStarted{ID: "t1", Name: "Read"}, backend.ToolEnded{ID: "t1", Content: "A"}, backend.ToolStarted{ID: "t2", Name: "Bash"},
				backend.TextDelta("I"),
			} {
				if err := emit(c); err != nil {
					return backend.Outcome{}, err
				}
			}
			return backend.Outcome{}, apierr.Wrap(backend.ErrCut, apierr.AgentError, "the answer broke off")
		})}
		last[event.Done](t, th.say("do it"))
		var results []string
		for _, m := range turns[1].Messages {
			for _, p := range m.Parts {
				if r, ok := p.(backend.Result); ok {
					results = append(results, fmt.Sprintf("%s %s", r.Name, r.Status))
				}
			}
		}
		if want := []string{"Read success", "Bash unknown"}; !slices.Equal(results, want) || turns[0].Attempt != 1 || turns[1].Attempt != 2 {
			t.Errorf("got the results %q and the attempts %d and %d, want %q, 1 and 2", results, turns[0].Attempt, turns[1].Attempt, want)
		}
	})
}
