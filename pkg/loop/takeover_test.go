package loop

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// TestTakeoverAnywhere kills a runner after each event of a request's log: the next one must come to the same answer.
func TestTakeoverAnywhere(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{
		"text, thought and tools": "/think hm\n/say hello world\n/tools calculator {}; calculator {\"expression\":\"6*7\"}\n/think well\n/say done",
		"an action":               "/say first\n/tools calculator {}; pick_file {}\n/say done",
		"a plan":                  "/plan a; b\n/plan-done 1\n/plan-finish ok\n/plan c\n/say done",
		"a final answer":          "/think hm\n/say so\n/answer Report | all of it is well\n/say bye",
		"custom events":           "/say a\n/custom x {\"n\":1}\n/custom strict\n/custom x {\"n\":2}\n/tools metered {}; metered {}\n/custom y\n/say b",
		"events of running tools": "/say a\n/tools reporting {}; reporting {}\n/say b",
		"a summary":               "/say a\n/tool calculator {}\n/usage 2000000 1\n/tool metered {}\n/say b\n/tool calculator {}\n/say c",
		"a failure":               "/say first\n/tool calculator {}\n/fail tool_error",
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				whole := newThread(t).say(script)
				for n := 2; n < len(whole); n++ {
					th := newThread(t)
					th.say(script)
					th.takeover(nil, n)
					if err := th.resume(t.Context()); err != nil {
						t.Fatalf("after %d events: %v", n, err)
					}
					sameEnd(t, n, whole, th.log.events)
				}
			})
		})
	}
}

// TestTakeoverOfAnAnswer does the same to the request that brings an action's result.
func TestTakeoverOfAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		play := func() (th *thread, before, whole []event.Event) {
			th = newThread(t)
			before = th.say("/tools delete_file {}; pick_file {}\n/say done")
			whole = th.answer(
				event.ActionResult{ActionID: th.pending[0].ActionID, Status: event.ActionSuccess},
				event.ActionResult{ActionID: th.pending[1].ActionID, Status: event.ActionDenied},
			)
			return th, before, whole
		}
		_, _, whole := play()
		for n := 2; n < len(whole); n++ {
			th, before, _ := play()
			th.takeover(before, n)
			if err := th.resume(t.Context()); err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			sameEnd(t, n, whole, th.log.events)
		}
	})
}

// sameEnd checks that got, taken over after n events, ends like whole, and that no block is left open.
func sameEnd(t *testing.T, n int, whole, got []event.Event) {
	t.Helper()
	a, b := ending(whole), ending(got)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("after %d events it ended with\n%+v\nwant\n%+v\nlog\n%s", n, b, a, lines(got))
	}
	if open := unstopped(got); len(open) > 0 {
		t.Errorf("after %d events blocks %v have no stop:\n%s", n, open, lines(got))
	}
	if want, got := uncounted(whole), uncounted(got); !slices.Equal(want, got) {
		t.Errorf("after %d events the log has, in addition to the answer,\n%q\nwant\n%q", n, got, want)
	}
	if actions := actionIDs(got); !slices.Equal(actionIDs(whole), actions) {
		t.Errorf("after %d events the actions are %v", n, actions)
	}
}

// ending is the terminal event without what a second attempt may change: usage, summaries that died with a runner, and
// the order of results that came side by side.
func ending(events []event.Event) any {
	switch b := events[len(events)-1].Body.(type) {
	case event.Done:
		b.Usage = event.Usage{}
		for i := range b.Content {
			b.Content[i].Summary = ""
		}
		slices.SortStableFunc(b.Content, func(x, y event.Content) int {
			if x.Type != event.ContentToolResult || y.Type != event.ContentToolResult {
				return 0
			}
			return strings.Compare(x.ToolCallID, y.ToolCallID)
		})
		return b
	case event.Error:
		b.Usage = nil
		return b
	default:
		return b
	}
}

// uncounted is what counts of a log and is not part of done.content, in the order of its text: calls run side by side.
func uncounted(events []event.Event) (lines []string) {
	for _, e := range events {
		switch b := e.Body.(type) {
		case event.Plan:
			lines = append(lines, fmt.Sprintf("plan %s %v %s %s", b.Stage, b.Steps, b.Summary, b.ToolCallID))
		case event.Custom:
			lines = append(lines, fmt.Sprintf("custom %s %s %s", b.Type, b.Data, b.ToolCallID))
		case event.Summary:
			lines = append(lines, fmt.Sprintf("summary %d %s", b.Kept, b.Text))
		case event.ContextCompressed:
			lines = append(lines, "compressed")
		case event.FinalAnswer:
			if b.Stage == event.StageStop && !b.Discarded {
				lines = append(lines, fmt.Sprintf("final answer %s %s %s", b.Title, b.Format, b.Content))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func actionIDs(events []event.Event) (ids []string) {
	for _, c := range find[event.Continuation](events) {
		if !slices.Contains(ids, c.ActionID) {
			ids = append(ids, c.ActionID)
		}
	}
	return ids
}

// unstopped lists the blocks that started and never stopped.
func unstopped(events []event.Event) (ids []string) {
	for _, e := range events {
		b := block(e.Body)
		switch b.Stage {
		case event.StageStart:
			ids = append(ids, b.BlockID)
		case event.StageStop:
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == b.BlockID })
		default: // a delta, or no block
		}
	}
	return ids
}

func block(body event.Body) event.Block {
	switch b := body.(type) {
	case event.Text:
		return b.Block
	case event.Thinking:
		return b.Block
	case event.ToolCall:
		return b.Block
	case event.ToolResult:
		return b.Block
	case event.FinalAnswer:
		return b.Block
	default:
		return event.Block{}
	}
}

func TestFinishedBlocksAreNotWrittenTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		whole := th.say("/think hm\n/say hello world")
		cut := slices.IndexFunc(whole, func(e event.Event) bool { b, ok := e.Body.(event.Text); return ok && b.Stage == event.StageDelta })
		th.takeover(nil, cut+1)
		if err := th.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(find[event.Thinking](th.log.events)); n != 3 {
			t.Errorf("the thought has %d events, want the start, delta and stop from before", n)
		}
	})
}

func TestAnotherAnswerReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		attempts := 0
		th.backend = backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			attempts++
			for _, c := range [][]backend.Chunk{
				{backend.ThinkingDelta("Let me see"), backend.TextDelta("It is A")},
				{backend.ThinkingDelta("Let me"), backend.ThinkingDelta(" think"), backend.TextDelta("It is B")},
			}[attempts-1] {
				if err := emit(c); err != nil {
					return backend.Outcome{}, err
				}
			}
			return backend.Outcome{Finish: event.FinishStop}, nil
		})
		whole := th.say("what is it?")
		usage := slices.IndexFunc(whole, func(e event.Event) bool { return e.Body.Name() == event.NameUsage })
		th.takeover(nil, usage) // both blocks are finished, the turn is not
		if err := th.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := last[event.Done](t, th.log.events)
		if len(done.Content) != 2 || done.Content[0].Thinking != "Let me think" || done.Content[1].Text != "It is B" {
			t.Errorf("the answer mixes two attempts: %+v", done.Content)
		}
	})
}

func TestToolRunsAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		var ids []string
		th.tools["calculator"] = func(_ context.Context, call backend.Call, _ func(Progress)) (Output, error) {
			ids = append(ids, call.ID)
			return Output{Status: event.ToolSuccess, Content: "42"}, nil
		}
		whole := th.say("/tool calculator {}")
		start := slices.IndexFunc(whole, func(e event.Event) bool { return e.Body.Name() == event.NameToolResult })
		th.takeover(nil, start+1)
		if err := th.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(ids) != 2 || ids[0] != ids[1] {
			t.Errorf("the executor saw the ids %v", ids)
		}
	})
}

func TestRestartsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		th.say("/say hello")
		th.takeover(nil, 2)
		th.put(event.Claim{Epoch: 3})
		th.put(event.Claim{Epoch: 4})
		if err := th.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		failed := last[event.Error](t, th.log.events)
		if failed.Code != apierr.AgentError || !failed.Retryable || !strings.Contains(failed.Message, "interrupted") {
			t.Errorf("got %+v", failed)
		}
	})
}
