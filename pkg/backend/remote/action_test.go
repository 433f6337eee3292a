package remote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// asking is a task that writes a file, for which it needs an approval, and asks a question.
func asking() []remoteagent.Body {
	return []remoteagent.Body{
		remoteagent.Progress{},
		remoteagent.TextDelta{Text: "I look. "},
		remoteagent.Progress{TurnsCompleted: 1, CostUSD: 0.25, Usage: &event.Usage{InputTokens: 10, OutputTokens: 5}},
		remoteagent.ActionRequired{
			TurnsCompleted: 1, CostUSD: 0.25, SessionID: "s1", Usage: &event.Usage{InputTokens: 10, OutputTokens: 5},
			Actions: []remoteagent.Action{
				{ActionID: "act_1", Kind: event.ContinueApproval, Tool: "write_file", ToolCallID: "c1", Input: []byte(`{"path":"a"}`), ExpiresAt: time.Now().Add(time.Hour)},
				{ActionID: "act_2", Kind: event.ContinueInput, Tool: "ask_user", Question: "Which city?", ExpiresAt: time.Now().Add(time.Hour)},
			},
		},
		remoteagent.Progress{TurnsCompleted: 1, CostUSD: 0.25},
		remoteagent.ToolStart{Tool: "write_file", File: "a", ToolCallID: "c1"},
		remoteagent.ToolEnd{Tool: "write_file", File: "a", ToolCallID: "c1", Success: true, Summary: "written"},
		remoteagent.TextDelta{Text: "Done."},
		remoteagent.Progress{TurnsCompleted: 2, CostUSD: 0.75, Usage: &event.Usage{InputTokens: 30, OutputTokens: 9}},
		remoteagent.Result{Status: remoteagent.Completed, Result: "Done.", CostUSD: 0.75, TurnsCompleted: 2, SessionID: "s1", Usage: &event.Usage{InputTokens: 30, OutputTokens: 9}},
	}
}

func TestATaskThatNeedsActionsEndsTheTurn(t *testing.T) {
	t.Parallel()
	l := newLab(t, asking()...)
	got, outcome, err := sendTurn(t, l.session(t, backend.State{}), "build it")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ = strings.Cut(got, "TextDelta I look. \n")
	want := strings.Join([]string{
		"CallStart {Index:0 Name:write_file Gate:agent_approval}", `CallDelta {Index:0 Args:{"path":"a"}}`, "CallSignature {Index:0 Signature:task_1/approval/act_1}",
		"CallStart {Index:1 Name:ask_user Gate:input}", `CallDelta {Index:1 Args:{"question":"Which city?"}}`, "CallSignature {Index:1 Signature:task_1/input/act_2}",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if outcome.Finish != event.FinishToolCalls || outcome.Usage.CostUSD != 0.25 || outcome.State.ID != "task_1@4?@req_1#" {
		t.Errorf("got %+v", outcome)
	}
	for _, a := range l.tasks {
		if a.Approvals != remoteagent.ApprovalsAsk {
			t.Errorf("got the assignment %+v, want one that asks", a)
		}
	}
}

// after is the state between the two requests.
func after() backend.State {
	return backend.State{ID: "task_1@4?@req_0#s1", Used: event.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.25}}
}

// resumed is the turn of the request that brings the results.
func resumed(first, second backend.Result, said string) backend.Turn {
	first.ID, second.ID = "call_1", "call_2"
	next := turn("build it")
	next.Messages = append(next.Messages,
		backend.Message{Role: backend.Assistant, Parts: []backend.Part{
			backend.Call{ID: "call_1", Signature: "task_1/approval/act_1"}, backend.Call{ID: "call_2", Signature: "task_1/input/act_2"},
		}},
		backend.Message{Role: backend.Tool, Parts: []backend.Part{first, second}})
	next.Known = len(next.Messages)
	if said != "" {
		next.Messages = append(next.Messages, turn(said).Messages...)
	}
	return next
}

func TestTheNextRequestAnswersTheTask(t *testing.T) {
	t.Parallel()
	allowed := backend.Result{Status: event.ToolSuccess, Content: "the user allowed this call"}
	oslo := backend.Result{Status: event.ToolSuccess, Content: "Oslo"}
	denied := backend.Result{Status: event.ToolDenied, Content: "the user denied this call: not today"}
	unable := backend.Result{Status: event.ToolFailed, Content: "no screen"}
	results := func(first, second event.ActionResult) []event.ActionResult {
		first.ActionID, second.ActionID = "act_1", "act_2"
		return []event.ActionResult{first, second}
	}
	city := event.ActionResult{Status: event.ActionSuccess, Result: []byte(`"Oslo"`)}
	offline := apierr.New(apierr.Unavailable, "the agent is offline")
	tests := []struct {
		name   string
		turn   backend.Turn
		errors []error
		want   []event.ActionResult // nil = the task is cancelled, and a new one follows
		calls  int
		says   string
		warns  string
	}{
		{"allowed and answered", resumed(allowed, oslo, ""), nil, results(event.ActionResult{Status: event.ActionSuccess}, city), 1, "", ""},
		{"denied and failed", resumed(denied, unable, ""), nil, results(event.ActionResult{Status: event.ActionDenied, Error: "not today"},
			event.ActionResult{Status: event.ActionError, Error: "no screen"}), 1, "", ""},
		{"with a message", resumed(denied, oslo, "be quick"), nil, results(event.ActionResult{Status: event.ActionDenied, Error: "not today"}, city), 1, "be quick", ""},
		{"a message instead", resumed(denied, denied, "stop that"), nil, nil, 0, "", ""},
		{"the agent is away for a moment", resumed(allowed, oslo, ""), []error{offline},
			results(event.ActionResult{Status: event.ActionSuccess}, city), 2, "", "went offline"},
		{"the action has another result already", resumed(allowed, oslo, ""), []error{apierr.New(apierr.InvalidActionID, "action act_1 has expired")},
			results(event.ActionResult{Status: event.ActionSuccess}, city), 1, "", "had no effect: action act_1 has expired"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, asking()...)
			l.answerErrors = tt.errors
			if tt.want == nil {
				l.events = l.events[8:]
			}
			var lines []string
			outcome, err := l.session(t, after()).Send(t.Context(), tt.turn, func(c backend.Chunk) error {
				lines = append(lines, line(c))
				return nil
			})
			got := strings.Join(lines, "\n")
			if err != nil || outcome.Finish != event.FinishStop {
				t.Fatalf("got %+v, %v", outcome, err)
			}
			if !strings.Contains(got, tt.warns) || (tt.warns != "") != strings.Contains(got, "Warning") {
				t.Errorf("got %s, want the warning %q", got, tt.warns)
			}
			if tt.want == nil {
				if len(l.answers) != 0 || len(l.cancelled) != 1 || len(l.tasks) != 1 {
					t.Errorf("got answers %+v, cancelled %q and tasks %+v", l.answers, l.cancelled, l.tasks)
				}
				for _, a := range l.tasks {
					if a.Task != "stop that" || a.ResumeSession != "s1" {
						t.Errorf("got the task %+v", a)
					}
				}
				return
			}
			if len(l.answers) != tt.calls || len(l.tasks) != 0 {
				t.Fatalf("got %d answers and %d new tasks", len(l.answers), len(l.tasks))
			}
			a := l.answers[0]
			for i, want := range tt.want {
				if r := a.ActionResults[i]; r.ActionID != want.ActionID || r.Status != want.Status || r.Error != want.Error || string(r.Result) != string(want.Result) {
					t.Errorf("got %+v, want %+v", r, want)
				}
			}
			if a.TaskID != "task_1" || a.Message != tt.says {
				t.Errorf("got %+v, want the message %q", a, tt.says)
			}
			if strings.Contains(got, "Step {") { // the only turn of the agent ends with the turn
				t.Errorf("a turn that ended before the answer is counted again: %s", got)
			}
			if outcome.Usage.CostUSD != 0.5 || !strings.HasPrefix(got, "State task_1@4!@req_1#s1") || !strings.Contains(got, "ToolEnded {ID:c1") {
				t.Errorf("got %+v from %s", outcome, got)
			}
		})
	}
}

// A runner that takes the request over repeats an answer of which the log does not show the effect. A runner of another
// request does not follow a task that was answered before.
func TestAnAnswerIsRepeatedAfterATakeover(t *testing.T) {
	t.Parallel()
	allowed := backend.Result{Status: event.ToolSuccess, Content: "the user allowed this call"}
	for state, want := range map[string]int{"task_1@4!@req_1#s1": 1, "task_1@7@req_1#s1": 0, "task_1@4!@req_0#s1": 0} {
		l := newLab(t, asking()...)
		_, err := l.session(t, backend.State{ID: state}).Send(t.Context(), resumed(allowed, allowed, ""), func(backend.Chunk) error { return nil })
		if err != nil || len(l.answers) != want {
			t.Errorf("%s: got %d answers, %v, want %d", state, len(l.answers), err, want)
		}
	}
}
