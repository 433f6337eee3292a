package agentserver_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

func TestATaskRunsToItsResult(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.create(remoteagent.Assignment{
		Prompt: "/say I look.\n/tool write_file {\"path\":\"src/a.go\",\"content\":\"package a\"}\n" +
			"/tool calculator {\"expression\":\"6*7\"}\n/say It is 42.",
		PermissionMode: remoteagent.PermitEdits, MaxTurns: 50,
	})
	if task.Status != remoteagent.Running || task.SessionID == "" || task.CreatedAt.IsZero() {
		t.Errorf("got %+v, want a running task with a session", task)
	}
	events := s.follow(task.TaskID, 0)
	want := "status text_delta status tool_start tool_end tool_start status tool_end text_delta status result"
	if got := names(events); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for i, e := range events {
		if e.ID != uint64(i)+1 {
			t.Fatalf("event %d has the id %d", i, e.ID)
		}
	}
	start := find[remoteagent.ToolStart](events)[0]
	if start.Tool != "write_file" || start.File != "src/a.go" || start.Activity != "Editing src/a.go" {
		t.Errorf("got %+v", start)
	}
	if end := find[remoteagent.ToolEnd](events)[0]; !end.Success || end.File != "src/a.go" || end.ToolCallID != start.ToolCallID {
		t.Errorf("got %+v", end)
	}
	done := s.status(task.TaskID)
	if done.Status != remoteagent.Completed || done.Result != "It is 42." || done.StopReason != "end_turn" || done.TurnsCompleted != 3 ||
		!slices.Equal(done.FilesModified, []string{"src/a.go"}) || done.CompletedAt.IsZero() || done.CostUSD <= 0 ||
		done.LastActivity != "Using calculator" {
		t.Errorf("got %+v", done)
	}
	if result := find[remoteagent.Result](events)[0]; result.Result != done.Result || result.CostUSD != done.CostUSD {
		t.Errorf("got %+v, want what the task says: %+v", result, done)
	}
}

func find[B remoteagent.Body](events []remoteagent.Event) (found []B) {
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			found = append(found, b)
		}
	}
	return found
}

func TestTasksEndInEveryStatus(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	loop := strings.Repeat("/tool clock {}\n", 10)
	tests := []struct {
		name   string
		task   remoteagent.Assignment
		status remoteagent.Status
		reason string
		last   string
	}{
		{"an answer completes it", remoteagent.Assignment{Prompt: "/say hi"}, remoteagent.Completed, "end_turn", "result"},
		{"an error fails it", remoteagent.Assignment{Prompt: "/say hi\n/fail agent_error retryable"}, remoteagent.Failed, "error", "error"},
		{"turns run out", remoteagent.Assignment{Prompt: loop, MaxTurns: 3}, remoteagent.MaxTurns, "max_turns", "result"},
		{"money runs out", remoteagent.Assignment{Prompt: "/usage 0 2\n" + loop, MaxBudgetUSD: 0.015}, remoteagent.MaxBudget, "max_budget", "result"},
		{"money runs out by default", remoteagent.Assignment{Prompt: "/usage 0 600\n" + loop}, remoteagent.MaxBudget, "max_budget", "result"},
		{"turns run out by default", remoteagent.Assignment{Prompt: strings.Repeat("/usage 0 0\n/tool clock {}\n", 60)},
			remoteagent.MaxTurns, "max_turns", "result"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			task := s.create(test.task)
			events := s.follow(task.TaskID, 0)
			got := s.status(task.TaskID)
			if got.Status != test.status || got.StopReason != test.reason {
				t.Errorf("got %s, %s, want %s, %s", got.Status, got.StopReason, test.status, test.reason)
			}
			if last := events[len(events)-1].Body; last.Name() != test.last || !remoteagent.IsTerminal(last) {
				t.Errorf("the stream ends with %s, want %s", last.Name(), test.last)
			}
			s.until("the place is free", func() bool { info, err := s.Info(t.Context()); return err == nil && info.CurrentTask == nil })
		})
	}
}

// The session of a failed task can be resumed.
func TestFailedTaskKeepsSession(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.finish(s.say("/say before\n/fail agent_error retryable").TaskID)
	if task.Status != remoteagent.Failed || task.Error == "" || !task.Recoverable {
		t.Fatalf("got %+v", task)
	}
	again := s.finish(s.create(remoteagent.Assignment{Prompt: "/say after", SessionID: task.SessionID}).TaskID)
	if again.Status != remoteagent.Completed || again.SessionID != task.SessionID {
		t.Errorf("got %+v", again)
	}
}

// A client that has seen the end of a task may send the next one at once.
func TestAPlaceIsFreeWhenItsTaskHasEnded(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	for range 50 {
		task := s.say("/say x")
		for _, err := range s.Stream(t.Context(), task.TaskID, 0) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestSessionsResume(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	folder := filepath.Join(s.root(), "app")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	first := s.finish(s.create(remoteagent.Assignment{Prompt: "/say one two three", Cwd: "app"}).TaskID)
	second := s.create(remoteagent.Assignment{
		Prompt: "/tool write_file {\"path\":\"x\",\"content\":\"y\"}\n/say four", SessionID: first.SessionID, PermissionMode: remoteagent.PermitAll,
	})
	done := s.finish(second.TaskID)
	if done.SessionID != first.SessionID || done.Status != remoteagent.Completed {
		t.Errorf("got %+v", done)
	}
	// The model reads what the session has said: the words of the first task count as input.
	if done.Usage.InputTokens <= first.Usage.InputTokens+3 {
		t.Errorf("the second task read %d words, the first %d: the conversation is missing", done.Usage.InputTokens, first.Usage.InputTokens)
	}
	if _, err := os.Stat(filepath.Join(folder, "x")); err != nil {
		t.Errorf("the session did not continue in its folder: %v", err)
	}
	_, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi", SessionID: "session_unknown"}, "")
	if r := refusal(err); r.HTTP != http.StatusNotFound || r.Code != remoteagent.SessionNotFound {
		t.Errorf("an unknown session gives %v", err)
	}
	status, body, _ := s.raw("POST", "/tasks", `{"prompt":"/say hi","sessionId":null}`, nil)
	if status != http.StatusCreated {
		t.Errorf("sessionId null gives %d %s", status, body)
	}
}

func TestABusyAgentRefusesOrQueues(t *testing.T) {
	t.Parallel()
	t.Run("it refuses with the task that runs", func(t *testing.T) {
		t.Parallel()
		s := open(t, setup{})
		running := s.say("/sleep 1h")
		_, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi"}, "")
		r := refusal(err)
		if r.HTTP != http.StatusConflict || r.Code != remoteagent.AgentBusy || r.CurrentTaskID != running.TaskID ||
			r.CurrentTask == nil || r.CurrentTask.Status != remoteagent.Running {
			t.Errorf("got %v", err)
		}
		info, err := s.Info(t.Context())
		if err != nil || info.Status != remoteagent.Busy || info.CurrentTask == nil || info.CurrentTask.TaskID != running.TaskID {
			t.Errorf("got %+v, %v", info, err)
		}
	})
	t.Run("it lets a bounded number wait, each in its turn", func(t *testing.T) {
		t.Parallel()
		s := open(t, setup{config: config.Config{AgentServer: config.AgentServer{Queue: 2}}})
		first := s.say("/sleep 1h")
		second, third := s.say("/say second"), s.say("/say third")
		if second.Status != remoteagent.Queued || third.Status != remoteagent.Queued {
			t.Fatalf("got %s and %s", second.Status, third.Status)
		}
		if _, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi"}, ""); refusal(err).Code != remoteagent.AgentBusy {
			t.Errorf("one too many gives %v", err)
		}
		if _, err := s.Cancel(t.Context(), second.TaskID); err != nil {
			t.Error(err)
		}
		if _, err := s.Cancel(t.Context(), first.TaskID); err != nil {
			t.Error(err)
		}
		if done := s.finish(third.TaskID); done.Status != remoteagent.Completed || done.Result != "third" {
			t.Errorf("got %+v", done)
		}
		if events := s.follow(second.TaskID, 0); names(events) != "result" || s.status(second.TaskID).Status != remoteagent.Cancelled {
			t.Errorf("a task that was cancelled while it waited: got %v", events)
		}
	})
	t.Run("a session has one task at a time, however many places there are", func(t *testing.T) {
		t.Parallel()
		s := open(t, setup{config: config.Config{AgentServer: config.AgentServer{Places: 3}}})
		first := s.say("/sleep 1h")
		other := s.finish(s.say("/say other").TaskID)
		if other.Status != remoteagent.Completed {
			t.Errorf("got %+v", other)
		}
		_, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi", SessionID: first.SessionID}, "")
		if r := refusal(err); r.Code != remoteagent.AgentBusy || r.CurrentTaskID != first.TaskID {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script, until string }{
		{"in the midst of a text", "/stream 100000 50", "text_delta"},
		{"in the midst of a tool", "/tool wait {}\n/say never", "tool_output"},
		{"at once", "/sleep 1h", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, setup{})
			task := s.say(test.script)
			s.await(task.TaskID, test.until)
			answer, err := s.Cancel(t.Context(), task.TaskID)
			if err != nil || answer != remoteagent.NewCancellation(task.TaskID) {
				t.Fatalf("got %+v, %v", answer, err)
			}
			if got := s.status(task.TaskID); got.Status != remoteagent.Cancelled || got.CompletedAt.IsZero() {
				t.Errorf("got %+v", got)
			}
			events := s.follow(task.TaskID, 0)
			if last, ok := events[len(events)-1].Body.(remoteagent.Result); !ok || last.Status != remoteagent.Cancelled {
				t.Errorf("the stream ends with %+v", events[len(events)-1])
			}
			_, err = s.Cancel(t.Context(), task.TaskID)
			if r := refusal(err); r.HTTP != http.StatusConflict || r.Message != "Task already cancelled" {
				t.Errorf("a second cancel gives %v", err)
			}
			if done := s.finish(s.create(remoteagent.Assignment{Prompt: "/say on", SessionID: task.SessionID}).TaskID); done.Result != "on" {
				t.Errorf("the session cannot be resumed: %+v", done)
			}
		})
	}
	t.Run("of a finished or unknown task", func(t *testing.T) {
		t.Parallel()
		s := open(t, setup{})
		task := s.finish(s.say("/say hi").TaskID)
		status, body, _ := s.raw("POST", "/tasks/"+task.TaskID+"/cancel", "", nil)
		if status != http.StatusConflict {
			t.Errorf("got %d %s", status, body)
		}
		for _, want := range []string{`"message":"Task already completed"`, `"error":"Task already completed"`,
			`"taskId":"` + task.TaskID + `"`, `"status":"completed"`} {
			if !strings.Contains(body, want) {
				t.Errorf("got %s, want %s in it", body, want)
			}
		}
		if _, err := s.Cancel(t.Context(), "task_unknown"); refusal(err).HTTP != http.StatusNotFound {
			t.Errorf("got %v", err)
		}
	})
}

// await reads a task's stream until an event of the name has come.
func (s *server) await(taskID, name string) {
	s.t.Helper()
	if name == "" {
		return
	}
	for e, err := range s.Stream(s.t.Context(), taskID, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Body.Name() == name {
			return
		}
	}
	s.t.Fatalf("task %s ended without %s", taskID, name)
}

// Old tasks are deleted, and reported as deleted.
func TestOldTasksAreDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := open(t, setup{env: envAt(dir)})
	task := before.finish(before.say("/say hi").TaskID)
	before.stop()
	after := open(t, setup{env: envAt(dir), change: func(s *agentserver.Settings) {
		s.Keep = agentserver.Keep{Tasks: time.Nanosecond, Sessions: time.Nanosecond, Tombstones: time.Hour}
	}})
	after.until("the task is gone", func() bool {
		_, err := after.Status(t.Context(), task.TaskID)
		return refusal(err).HTTP == http.StatusGone && refusal(err).Code == remoteagent.TaskGone
	})
	for _, path := range []string{"/tasks/" + task.TaskID + "/stream", "/tasks/" + task.TaskID} {
		if status, body, _ := after.raw("GET", path, "", nil); status != http.StatusGone {
			t.Errorf("GET %s gives %d %s", path, status, body)
		}
	}
	if _, err := after.Status(t.Context(), "task_never"); refusal(err).HTTP != http.StatusNotFound {
		t.Errorf("got %v", err)
	}
	_, err := after.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi", SessionID: task.SessionID}, "")
	if refusal(err).Code != remoteagent.SessionNotFound {
		t.Errorf("an expired session gives %v", err)
	}
}

// A task whose creation was not answered is found by its key.
func TestAnIdempotencyKeyMeansOneTask(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	first, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/sleep 1h"}, "k-1")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/sleep 1h"}, "k-1")
	if err != nil || again.TaskID != first.TaskID {
		t.Errorf("the second time gives %+v, %v", again, err)
	}
	if _, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say other"}, "k-1"); refusal(err).HTTP != http.StatusUnprocessableEntity {
		t.Errorf("another task under the same key gives %v", err)
	}
	found, err := s.List(t.Context(), remoteagent.Query{IdempotencyKey: "k-1"})
	if err != nil || len(found) != 1 || found[0].TaskID != first.TaskID {
		t.Errorf("got %+v, %v", found, err)
	}
	if found, err := s.List(t.Context(), remoteagent.Query{IdempotencyKey: "k-2"}); err != nil || len(found) != 0 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestACreationWithoutAnAnswerIsLookedFor(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	s.HTTP = &http.Client{Transport: deaf{}}
	task, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi"}, "k-1")
	if err != nil || task.TaskID == "" {
		t.Fatalf("got %+v, %v", task, err)
	}
	if tasks, err := s.List(t.Context(), remoteagent.Query{}); err != nil || len(tasks) != 1 {
		t.Errorf("got %+v, %v", tasks, err)
	}
}

// deaf loses the answers to posts.
type deaf struct{}

func (deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if r.Method == http.MethodPost && err == nil {
		_ = response.Body.Close()
		return nil, context.DeadlineExceeded
	}
	return response, err
}

func TestTasksAreListed(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	one := s.finish(s.say("/say one").TaskID)
	s.until("the place is free", func() bool { info, err := s.Info(t.Context()); return err == nil && info.CurrentTask == nil })
	two := s.say("/sleep 1h")
	tests := []struct {
		name string
		q    remoteagent.Query
		want []string
	}{
		{"all, the newest first", remoteagent.Query{}, []string{two.TaskID, one.TaskID}},
		{"by status", remoteagent.Query{Status: remoteagent.Completed}, []string{one.TaskID}},
		{"not more than asked for", remoteagent.Query{Limit: 1}, []string{two.TaskID}},
	}
	for _, test := range tests {
		tasks, err := s.List(t.Context(), test.q)
		var got []string
		for _, task := range tasks {
			got = append(got, task.TaskID)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v, want %v", test.name, got, err, test.want)
		}
	}
	if status, body, _ := s.raw("GET", "/tasks?limit=0", "", nil); status != http.StatusBadRequest {
		t.Errorf("a limit of 0 gives %d %s", status, body)
	}
}

// What a stop leaves continues at the next start: a call that may have had an effect is not made again.
func TestAStopLeavesTasksForTheNextStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	setting := setup{env: envAt(dir), config: config.Config{AgentServer: config.AgentServer{OnCrash: config.OnCrashResume, Queue: 1}}}
	before := open(t, setting)
	task := before.say("/say one\n/tool wait {}\n/say two")
	waiting := before.say("/say after")
	before.await(task.TaskID, "tool_output")
	before.stop()

	after := open(t, setting)
	done := after.finish(task.TaskID)
	if done.Status != remoteagent.Completed || done.Result != "two" {
		t.Errorf("got %+v", done)
	}
	events := after.follow(task.TaskID, 0)
	starts, ends := find[remoteagent.ToolStart](events), find[remoteagent.ToolEnd](events)
	if len(starts) != 1 || len(ends) == 0 || ends[len(ends)-1].Success || !strings.Contains(ends[len(ends)-1].Summary, "may or may not") {
		t.Errorf("got %+v and %+v", starts, ends)
	}
	if done := after.finish(waiting.TaskID); done.Status != remoteagent.Completed || done.Result != "after" {
		t.Errorf("the task that waited: got %+v", done)
	}
}
