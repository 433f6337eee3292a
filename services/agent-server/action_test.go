package agentserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

// asks starts a task that waits for its actions, and returns it once it does.
func (s *server) asks(a remoteagent.Assignment) remoteagent.Task {
	s.t.Helper()
	a.Approvals = remoteagent.ApprovalsAsk
	task := s.create(a)
	s.until("the task waits", func() bool { task = s.status(task.TaskID); return task.Status == remoteagent.NeedsAction })
	return task
}

// result answers the first action of a task.
func result(task remoteagent.Task, status event.ActionStatus, value, reason string) remoteagent.Answer {
	r := event.ActionResult{ActionID: task.Actions[0].ActionID, Status: status, Error: reason}
	if value != "" {
		r.Result = json.RawMessage(value)
	}
	return remoteagent.Answer{ActionResults: []event.ActionResult{r}}
}

func TestATaskContinuesAfterItsAction(t *testing.T) {
	t.Parallel()
	const guard = "/say first\n/tool guarded {\"a\":1}\n/say on"
	tests := []struct {
		name   string
		script string
		status event.ActionStatus
		value  string
		reason string
		events string // after those before the action
		denial string
		result string
	}{
		{"an approval is given", guard, event.ActionSuccess, "", "", "status tool_start tool_end text_delta status result", "", "on"},
		{"an approval is denied", guard, event.ActionDenied, "", "not today", "status tool_start tool_end text_delta status result",
			"the user denied this call: not today", "on"},
		{"a question is answered", "/ask Which city?\n/say on", event.ActionSuccess, `"Oslo"`, "", "status text_delta status result", "", "on"},
		{"a question is declined", "/ask Which city?\n/say on", event.ActionDenied, "", "", "status tool_start tool_end text_delta status result",
			"the user declined to answer", "on"},
	}
	s := open(t, setup{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			task := s.asks(remoteagent.Assignment{Prompt: test.script})
			action := task.Actions[0]
			if question := strings.HasPrefix(test.script, "/ask"); (action.Kind == event.ContinueInput) != question ||
				question != (action.Question == "Which city?") || !question && string(action.Input) != `{"a":1}` {
				t.Errorf("got the action %+v", action)
			}
			if _, err := s.Answer(t.Context(), task.TaskID, result(task, test.status, test.value, test.reason)); err != nil {
				t.Fatal(err)
			}
			events := s.follow(task.TaskID, 0)
			_, after, asked := strings.Cut(names(events), "action_required ")
			if !asked || after != test.events {
				t.Errorf("got %s, want %s after the action", names(events), test.events)
			}
			got := s.status(task.TaskID)
			if got.Status != remoteagent.Completed || got.Result != test.result || got.Actions != nil {
				t.Errorf("got %+v", got)
			}
			if (len(got.Denials) == 1) != (test.denial != "") || test.denial != "" && got.Denials[0].Reason != test.denial {
				t.Errorf("got the denials %+v, want %q", got.Denials, test.denial)
			}
		})
	}
}

func TestResultsOfActionsAreTakenOnce(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.asks(remoteagent.Assignment{Prompt: "/tool guarded {}\n/tool guarded {}\n/say on"})
	other := remoteagent.Answer{ActionResults: []event.ActionResult{{ActionID: "act_other", Status: event.ActionSuccess}}}
	if _, err := s.Answer(t.Context(), task.TaskID, other); refusal(err).Code != apierr.InvalidActionID {
		t.Errorf("an action of another task: got %v", err)
	}
	first := result(task, event.ActionSuccess, "", "")
	for range 2 {
		if _, err := s.Answer(t.Context(), task.TaskID, first); err != nil {
			t.Errorf("the same answer: got %v", err)
		}
	}
	if _, err := s.Answer(t.Context(), task.TaskID, result(task, event.ActionDenied, "", "")); refusal(err).Code != remoteagent.ActionResolved {
		t.Errorf("another answer: got %v", err)
	}
	s.until("the task waits again", func() bool {
		now := s.status(task.TaskID)
		ready := now.Status == remoteagent.NeedsAction && now.Actions[0].ActionID != task.Actions[0].ActionID
		if ready {
			task = now
		}
		return ready
	})
	if _, err := s.Cancel(t.Context(), task.TaskID); err != nil {
		t.Fatal(err)
	}
	if got := s.finish(task.TaskID); got.Status != remoteagent.Cancelled || got.TurnsCompleted != 2 || got.CostUSD <= 0 {
		t.Errorf("cancelled while it waits: got %+v", got)
	}
	if _, err := s.Answer(t.Context(), task.TaskID, first); err != nil {
		t.Errorf("the same answer after the end: got %v", err)
	}
	if _, err := s.Answer(t.Context(), task.TaskID, result(task, event.ActionSuccess, "", "")); refusal(err).Code != remoteagent.TaskFinished {
		t.Errorf("an answer after the end: got %v", err)
	}
	for body, want := range map[string]string{
		`{}`: "actionResults has 0 results", `{"actionResults":[{"status":"success"}]}`: "actionId is missing",
		`{"actionResults":[{"actionId":"a","status":"yes"}]}`: "is not one of", `[]`: "not an answer",
	} {
		if status, text, _ := s.raw(http.MethodPost, "/tasks/"+task.TaskID+"/actions", body, nil); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %s, want %q", body, status, text, want)
		}
	}
}

func TestATaskThatWaitsOccupiesNoPlace(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.asks(remoteagent.Assignment{Prompt: "/tool guarded {}\n/say on"})
	if got := s.finish(s.say("/say other").TaskID); got.Result != "other" {
		t.Errorf("another task: got %+v", got)
	}
	_, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi", SessionID: task.SessionID}, "")
	if refusal(err).Code != remoteagent.AgentBusy {
		t.Errorf("another task of the session: got %v", err)
	}
	if _, err := s.Answer(t.Context(), task.TaskID, result(task, event.ActionSuccess, "", "")); err != nil {
		t.Fatal(err)
	}
	if got := s.finish(task.TaskID); got.Result != "on" || len(got.Denials) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAMessageSupersedesActions(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.asks(remoteagent.Assignment{Prompt: "/tools guarded {}; guarded {}\n/say on"})
	if len(task.Actions) != 2 {
		t.Fatalf("got %+v, want two actions", task.Actions)
	}
	answer := result(task, event.ActionSuccess, "", "")
	answer.Message = "/say instead"
	if _, err := s.Answer(t.Context(), task.TaskID, answer); err != nil {
		t.Fatal(err)
	}
	got := s.finish(task.TaskID)
	if got.Result != "instead" || len(got.Denials) != 1 || !strings.Contains(got.Denials[0].Reason, "superseded") {
		t.Errorf("got %+v", got)
	}
}

func TestAnActionExpires(t *testing.T) {
	t.Parallel()
	s := open(t, setup{change: func(s *agentserver.Settings) { s.Agent.ActionTTL = 300 * time.Millisecond }})
	task := s.create(remoteagent.Assignment{Prompt: "/tool guarded {}\n/say on", Approvals: remoteagent.ApprovalsAsk})
	events := s.follow(task.TaskID, 0)
	got := s.status(task.TaskID)
	if got.Status != remoteagent.Completed || len(got.Denials) != 1 || !strings.Contains(got.Denials[0].Reason, "expired") {
		t.Errorf("got %+v", got)
	}
	asked := find[remoteagent.ActionRequired](events)[0]
	late := remoteagent.Answer{ActionResults: []event.ActionResult{{ActionID: asked.Actions[0].ActionID, Status: event.ActionSuccess}}}
	if _, err := s.Answer(t.Context(), task.TaskID, late); refusal(err).Code != remoteagent.TaskFinished {
		t.Errorf("an answer after the end: got %v", err)
	}
}

// A task that waits survives the end of the process: it does not run.
func TestATaskWaitsThroughARestart(t *testing.T) {
	t.Parallel()
	for name, answerFirst := range map[string]bool{"answered after it": false, "answered before it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, setup{env: envAt(dir)})
			script := "/tool guarded {}\n/say on"
			if answerFirst { // one of two: it still waits
				script = "/tools guarded {}; guarded {}\n/say on"
			}
			task := s.asks(remoteagent.Assignment{Prompt: script})
			if answerFirst {
				if _, err := s.Answer(t.Context(), task.TaskID, result(task, event.ActionSuccess, "", "")); err != nil {
					t.Fatal(err)
				}
			}
			s.stop()
			s = open(t, setup{env: envAt(dir)})
			now := s.status(task.TaskID)
			if now.Status != remoteagent.NeedsAction || len(now.Actions) != 1 {
				t.Fatalf("got %+v, want one action", now)
			}
			if _, err := s.Answer(t.Context(), task.TaskID, result(now, event.ActionSuccess, "", "")); err != nil {
				t.Fatal(err)
			}
			if got := s.finish(task.TaskID); got.Status != remoteagent.Completed || got.Result != "on" || len(got.Denials) != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}
