package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// asks runs a script on a remote agent that must stop for an action, and returns the action.
func (o office) asks(t *testing.T, agentID, script string) (transcript, event.Continuation) {
	t.Helper()
	tr := o.run(t, agentID, script).end(t, time.Minute)
	checkStream(t, tr)
	if got := tr.done(t).FinishReason; got != event.FinishActionRequired {
		t.Fatalf("got finish reason %s, want action_required, in %s", got, tr.shape())
	}
	return tr, only[event.Continuation](t, tr)
}

// next sends the next request of a thread.
func (o office) next(t *testing.T, agentID, body string) *watch {
	t.Helper()
	return o.read(t.Context(), t, http.MethodPost, o.URL+"/v1/agents/"+agentID+"/stream?include=extended", body)
}

func writes(file, after string) string {
	return "/say before\n/tool write_file {\"path\":\"" + file + "\",\"content\":\"x\"}\n" + after + "/say after"
}

func TestAnActionOfARemoteAgentReachesTheCaller(t *testing.T) {
	t.Parallel()
	o, root := newOffice(t, 0), t.TempDir()
	o.addAgent(t, "AGENT_ROOT="+root)
	tests := []struct {
		name   string
		script string
		kind   event.ContinuationKind
		result event.ActionResult
		status event.ToolStatus // of write_file at the end; "" = it is not called
		says   string
	}{
		{"allowed", writes("allowed", ""), event.ContinueApproval, event.ActionResult{Status: event.ActionSuccess}, event.ToolSuccess, "after"},
		{"denied", writes("denied", ""), event.ContinueApproval, event.ActionResult{Status: event.ActionDenied, Error: "not today"}, event.ToolDenied, "after"},
		{"answered", "/say before\n/ask Which city?\n/say after", event.ContinueInput, success("", `"Oslo"`), "", "after"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, action := o.asks(t, "vm-1", tt.script)
			question := tt.kind == event.ContinueInput
			if action.Kind != tt.kind || question != (action.Payload.Question == "Which city?") ||
				!question && (action.Payload.Tool != "write_file" || !strings.Contains(string(action.Payload.Args), tt.name)) {
				t.Errorf("got %+v", action)
			}
			tt.result.ActionID = action.ActionID
			tr := o.next(t, "vm-1", resolve(first.ThreadID, tt.result)).end(t, time.Minute)
			checkStream(t, tr)
			if done := tr.done(t); done.FinishReason != event.FinishStop || answerText(done) != tt.says {
				t.Errorf("got %+v in %s", done, tr.shape())
			}
			if got := tr.results()["write_file"].Status; got != tt.status {
				t.Errorf("write_file ended as %q, want %q, in %s", got, tt.status, tr.shape())
			}
			if _, err := os.Stat(filepath.Join(root, tt.name)); (err == nil) != (tt.name == "allowed") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a new message instead", func(t *testing.T) {
		first, _ := o.asks(t, "vm-1", writes("superseded", ""))
		body := strings.Replace(prompt("/say instead"), "{", `{"threadId":"`+first.ThreadID+`",`, 1)
		tr := o.next(t, "vm-1", body).end(t, time.Minute)
		if checkStream(t, tr); answerText(tr.done(t)) != "instead" {
			t.Errorf("got %s", tr.shape())
		}
		tasks, err := remoteagent.NewClient(o.agents[0].URL, agentKey).List(t.Context(), remoteagent.Query{Limit: 2})
		if err != nil || tasks[0].Status != remoteagent.Completed || tasks[1].Status != remoteagent.Cancelled {
			t.Errorf("got the tasks %+v, %v", tasks, err)
		}
	})
	t.Run("a request that does not ask", func(t *testing.T) {
		body := strings.Replace(prompt(writes("unasked", "")), "{", `{"context":{"task":{"approvals":"deny"}},`, 1)
		tr := o.next(t, "vm-1", body).end(t, time.Minute)
		if checkStream(t, tr); tr.results()["write_file"].Status != event.ToolDenied || answerText(tr.done(t)) != "before|after" {
			t.Errorf("got %s", tr.shape())
		}
	})
}

// No process waits for the result of an action: all of them are killed, and the task continues when they are back.
func TestAnActionOfARemoteAgentSurvivesItsProcesses(t *testing.T) {
	t.Parallel()
	o, root := newOffice(t, 0), t.TempDir()
	o.addAgent(t, "AGENT_ROOT="+root)
	works, waits := o.alone(t, "agent-runner")
	first, action := o.asks(t, "vm-1", writes("allowed", "/tool echo {\"text\":\"one\",\"delay\":\"4s\"}\n"))
	hub := o.Processes("hub")[0]
	for _, p := range []interface{ Kill() }{o.agents[0], hub, works} {
		p.Kill()
	}
	start(t, hub)
	start(t, works)
	w := o.next(t, "vm-1", resolve(first.ThreadID, success(action.ActionID, "")))
	sees(t, w, "that the agent is offline", says("went offline"))
	start(t, o.agents[0].Process)
	sees(t, w, "the call behind the approved one", func(b event.Body) bool {
		call, ok := b.(event.ToolCall)
		return ok && call.Stage == event.StageStop && call.Tool == "echo"
	})
	start(t, waits)
	works.Kill()
	tr := w.end(t, time.Minute)
	checkStream(t, tr)
	results := tr.results()
	if got := answerText(tr.done(t)); got != "after" || results["write_file"].Status != event.ToolSuccess || results["echo"].Status != event.ToolSuccess {
		t.Errorf("got %q and %+v, in %s", got, results, tr.shape())
	}
	if _, err := os.Stat(filepath.Join(root, "allowed")); err != nil {
		t.Error(err)
	}
	tasks, err := remoteagent.NewClient(o.agents[0].URL, agentKey).List(t.Context(), remoteagent.Query{})
	if err != nil || len(tasks) != 1 || tasks[0].Status != remoteagent.Completed || len(tasks[0].Denials) > 0 {
		t.Errorf("the agent has the tasks %+v, %v, want one that is completed", tasks, err)
	}
}

// A task that no request has given is answered through the hub.
func TestAnActionOfATaskIsAnsweredAtTheHub(t *testing.T) {
	t.Parallel()
	o, root := newOffice(t, 0), t.TempDir()
	o.addAgent(t, "AGENT_ROOT="+root)
	assign := func(file string) (task hubapi.Task, action remoteagent.Action, path string) {
		t.Helper()
		body := map[string]any{"task": writes(file, ""), "approvals": "ask"}
		if err := o.ask(t.Context(), http.MethodPost, "/api/agents/vm-1/tasks", body, &task); err != nil {
			t.Fatal(err)
		}
		task = o.ends(t, task, remoteagent.NeedsAction)
		if len(task.Actions) != 1 || task.Actions[0].Tool != "write_file" {
			t.Fatalf("got %+v", task)
		}
		return task, task.Actions[0], "/api/agents/vm-1/tasks/" + task.TaskID
	}
	answer := func(action remoteagent.Action, status event.ActionStatus) any {
		return map[string]any{"actionResults": []event.ActionResult{{ActionID: action.ActionID, Status: status}}}
	}
	task, action, path := assign("allowed")
	if err := o.ask(t.Context(), http.MethodPost, path+"/actions", answer(action, event.ActionSuccess), &task); err != nil {
		t.Fatal(err)
	}
	if got := o.ends(t, task, remoteagent.Completed); len(got.Denials) > 0 || len(got.Actions) > 0 {
		t.Errorf("got %+v", got)
	}
	err := o.ask(t.Context(), http.MethodPost, path+"/actions", answer(action, event.ActionDenied), &task)
	if err == nil || !strings.Contains(err.Error(), "another result already") {
		t.Errorf("a second answer: got %v", err)
	}
	task, action, path = assign("cancelled")
	if err := o.ask(t.Context(), http.MethodPost, path+"/cancel", nil, new(hubapi.Cancelled)); err != nil {
		t.Fatal(err)
	}
	o.ends(t, task, remoteagent.Cancelled)
	err = o.ask(t.Context(), http.MethodPost, path+"/actions", answer(action, event.ActionSuccess), &task)
	if err == nil || !strings.Contains(err.Error(), "has ended as cancelled") {
		t.Errorf("an answer after the end: got %v", err)
	}
}
