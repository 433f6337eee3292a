package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/e2e/stack"
	"github.com/go-json-experiment/json"
)

// hubConfig lets the hub reach agents on this machine, and gives an agent of ours its tools.
const hubConfig = `
hub: {plainHTTP: true, allow: [127.0.0.0/8]}
agents:
  chief: {backend: scripted, tools: [hub], toolOutput: allow}
  far: {description: works on another machine, backend: remote, remote: {agent: vm-1}}
  editor: {backend: remote, remote: {agent: vm-1, permissionMode: acceptEdits}}
  lead: {backend: scripted, agents: [far]}
  thrifty: {backend: scripted, agents: [far], limits: {tokens: 1000}}
`

const agentKey = "agent-key-of-the-tests-0123456789"

// office is a lab with a hub and its agents.
type office struct {
	lab
	agents []stack.Agent
}

// newOffice starts a hub and registers so many agents at it.
func newOffice(t *testing.T, agents int) office {
	t.Helper()
	o := office{lab: newLab(t, setup{counts: map[string]int{"hub": 1, "agent-runner": 2}, database: database(t), agents: hubConfig})}
	for range agents {
		o.addAgent(t)
	}
	return o
}

// addAgent starts one more agent, registers it at the hub, and waits until gateways list it.
func (o *office) addAgent(t *testing.T, env ...string) {
	t.Helper()
	id := fmt.Sprintf("vm-%d", len(o.agents)+1)
	a, err := o.StartAgent(t.Context(), id, agentKey, append(env, "HUB_URL="+o.Hub)...)
	if err != nil {
		t.Fatal(err)
	}
	o.agents = append(o.agents, a)
	var saved hubapi.Agent
	body := map[string]any{"url": a.URL, "apiKey": agentKey, "capabilities": []string{"code"}}
	if err := o.ask(t.Context(), http.MethodPost, "/api/agents", body, &saved); err != nil || saved.ID != a.ID || !saved.IsOnline {
		t.Fatalf("register %s: got %+v, %v", a.ID, saved, err)
	}
	eventually(t, 10*time.Second, func() error {
		if !strings.Contains(o.gatewayAgents(t), `"`+id+`"`) {
			return fmt.Errorf("the gateway does not list %s", id)
		}
		return nil
	})
}

func (o office) gatewayAgents(t *testing.T) string {
	t.Helper()
	response, err := http.Get(o.URL + "/v1/agents")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ask calls the hub.
func (o office) ask(ctx context.Context, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, o.Hub+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s answers %s: %s", method, path, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

func (o office) assign(t *testing.T, agentID, script string) hubapi.Task {
	t.Helper()
	var task hubapi.Task
	if err := o.ask(t.Context(), http.MethodPost, "/api/agents/"+agentID+"/tasks", map[string]any{"task": script}, &task); err != nil {
		t.Fatal(err)
	}
	return task
}

func (o office) status(ctx context.Context, of hubapi.Task) (hubapi.Task, error) {
	var task hubapi.Task
	return task, o.ask(ctx, http.MethodGet, "/api/agents/"+of.AgentID+"/tasks/"+of.TaskID, nil, &task)
}

// ends waits until a task has a status, and returns it.
func (o office) ends(t *testing.T, of hubapi.Task, want remoteagent.Status) (task hubapi.Task) {
	t.Helper()
	eventually(t, time.Minute, func() (err error) {
		if task, err = o.status(t.Context(), of); err == nil && task.Status != want {
			err = fmt.Errorf("the task is %s (%s), want %s", task.Status, task.Notice, want)
		}
		return err
	})
	return task
}

func (o office) run(t *testing.T, agentID, script string) *watch {
	t.Helper()
	return o.read(t.Context(), t, http.MethodPost, o.URL+"/v1/agents/"+agentID+"/stream?include=extended", prompt(script))
}

// sees waits for an event that is as wanted.
func sees(t *testing.T, w *watch, what string, want func(event.Body) bool) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		tr := w.seen()
		for _, e := range tr.Events {
			if want(e.Body) {
				return nil
			}
		}
		return fmt.Errorf("%s has not come: %s", what, tr.shape())
	})
}

func isCalled(b event.Body) bool {
	call, ok := b.(event.ToolCall)
	return ok && call.Stage == event.StageStop
}

func says(text string) func(event.Body) bool {
	return func(b event.Body) bool {
		notice, ok := b.(event.Notice)
		return ok && strings.Contains(notice.Message, text)
	}
}

// Three agents work at the same time, one is cancelled in the middle of a tool.
func TestAHubGivesWorkToItsAgents(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 3)
	slow := o.assign(t, "vm-1", `/tool echo {"delay":"5m"}`)
	var quick []hubapi.Task
	for _, id := range []string{"vm-2", "vm-3"} {
		quick = append(quick, o.assign(t, id, "/say built by "+id))
	}
	for _, task := range quick {
		if got := o.ends(t, task, remoteagent.Completed); !strings.Contains(got.Result, "built by "+got.AgentID) || got.SessionID == "" {
			t.Errorf("got %+v", got)
		}
	}
	err := o.ask(t.Context(), http.MethodPost, "/api/agents/vm-1/tasks", map[string]any{"task": "/say more"}, new(hubapi.Task))
	if err == nil || !strings.Contains(err.Error(), "409") || !strings.Contains(err.Error(), slow.TaskID) {
		t.Errorf("a second task for a busy agent: got %v, want 409 with the first", err)
	}
	var cancelled hubapi.Cancelled
	path := "/api/agents/vm-1/tasks/" + slow.TaskID + "/cancel"
	if err := o.ask(t.Context(), http.MethodPost, path, nil, &cancelled); err != nil || cancelled.Message != "Task cancelled by orchestrator" {
		t.Errorf("got %+v, %v", cancelled, err)
	}
	o.ends(t, slow, remoteagent.Cancelled)
	if err := o.ask(t.Context(), http.MethodPost, path, nil, &cancelled); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a second cancel: got %v, want 409", err)
	}
}

// A request to a remote agent streams, is aborted in the middle of a tool, and its thread continues.
func TestARemoteAgentIsAnAgent(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 1)
	first := o.run(t, "vm-1", "/say from afar\n/tool calculator {\"expression\":\"6*7\"}\n/say done").end(t, time.Minute)
	checkStream(t, first)
	if done := first.done(t); done.FinishReason != event.FinishStop || len(first.results()) != 1 {
		t.Errorf("got %+v after %s", done, first.shape())
	}
	w := o.run(t, "vm-1", `/tool echo {"delay":"5m"}`)
	sees(t, w, "the call", isCalled)
	id := w.seen().RequestID
	response, err := http.Post(o.URL+"/v1/requests/"+id+"/abort", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if tr := w.end(t, 10*time.Second); tr.Events[len(tr.Events)-1].Body.Name() != event.NameAborted {
		t.Errorf("got %s, want it aborted", tr.shape())
	}
	eventually(t, 10*time.Second, func() error { // the abort reaches the machine
		var list hubapi.AgentList
		err := o.ask(t.Context(), http.MethodGet, "/api/agents?live=true", nil, &list)
		if err == nil && list.Agents[0].Status != "idle" {
			err = fmt.Errorf("the agent is %s", list.Agents[0].Status)
		}
		return err
	})
	again := o.read(t.Context(), t, http.MethodPost, o.URL+"/v1/agents/vm-1/stream",
		strings.Replace(prompt("/say once more"), "{", `{"threadId":"`+first.ThreadID+`",`, 1)).end(t, time.Minute)
	checkStream(t, again)
}

// An agent is killed in the middle of a task, and comes back.
func TestAgentGoesOfflineAndOnline(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 2)
	task := o.assign(t, "vm-1", `/tool echo {"delay":"5m"}`)
	w := o.run(t, "vm-2", `/tool echo {"delay":"5m"}`)
	sees(t, w, "the call", isCalled)
	for _, a := range o.agents {
		a.Kill()
	}
	sees(t, w, "that the agent went offline", says("Agent [vm-2] went offline while working on ["))
	got, err := o.status(t.Context(), task)
	if want := hubapi.Offline("vm-1", `/tool echo {"delay":"5m"}`); err != nil || got.Notice != want || got.AgentOnline {
		t.Errorf("got %+v, %v, want the notice %q", got, err, want)
	}
	err = o.ask(t.Context(), http.MethodPost, "/api/agents/vm-1/tasks", map[string]any{"task": "/say x"}, new(hubapi.Task))
	if err == nil || !strings.Contains(err.Error(), "offline") {
		t.Errorf("a task for an agent that is offline: got %v", err)
	}
	for _, a := range o.agents {
		start(t, a.Process)
	}
	failed := o.ends(t, task, remoteagent.Failed)
	if failed.SessionID == "" || failed.Error == "" || failed.Notice != "" {
		t.Errorf("got %+v, want an error and a session to resume", failed)
	}
	tr := w.end(t, time.Minute)
	if e, ok := tr.Events[len(tr.Events)-1].Body.(event.Error); !ok || !strings.Contains(e.Message, "remote agent failed") {
		t.Errorf("got %s", tr.shape())
	}
	var resumed hubapi.Task
	body := map[string]any{"task": "/say on it again", "resumeSession": failed.SessionID}
	eventually(t, time.Minute, func() error {
		return o.ask(t.Context(), http.MethodPost, "/api/agents/vm-1/tasks", body, &resumed)
	})
	if got := o.ends(t, resumed, remoteagent.Completed); got.SessionID != failed.SessionID {
		t.Errorf("got session %s, want %s", got.SessionID, failed.SessionID)
	}
}

// The runner dies in the middle of a task; another one takes the task up behind what the log has: texts and calls are
// not repeated, and every call has its result, whatever the tool prints meanwhile.
func TestRunnerOfRemoteAgentCrashes(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"while a tool says nothing": `/tool echo {"text":"one","delay":"4s"}`,
		"after a tool has printed":  `/tool echo {"text":"one two three four","delay":"6s"}`,
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, 1)
			works, waits := o.alone(t, "agent-runner")
			w := o.run(t, "vm-1", "/say before\n"+call+"\n/say after")
			sees(t, w, "the call", isCalled)
			start(t, waits)
			works.Kill()
			tr := w.end(t, time.Minute)
			checkStream(t, tr)
			o.checkOnce(t, tr)
		})
	}
}

// checkOnce checks that a request to the first agent is one task of it, of which the log has everything once.
func (o office) checkOnce(t *testing.T, tr transcript) {
	t.Helper()
	var answer []string
	done := tr.done(t)
	for _, c := range done.Content {
		answer = append(answer, strings.TrimSpace(fmt.Sprintf("%s %s%s%s", c.Type, c.Text, c.Name, c.Status)))
	}
	want := []string{"text before", "tool_use echo", "tool_result echosuccess", "text after"}
	if done.FinishReason != event.FinishStop || !slices.Equal(answer, want) {
		t.Errorf("the answer is %q (%s), want %q, after %s", answer, done.FinishReason, want, tr.shape())
	}
	for _, e := range tr.Events {
		switch b := e.Body.(type) {
		case event.ToolCall:
			if b.Discarded {
				t.Errorf("a call was discarded: %s", tr.shape())
			}
		case event.ToolResult:
			if b.Discarded {
				t.Errorf("a result was discarded: %s", tr.shape())
			}
		}
	}
	if r := tr.results()["echo"]; r.Status != event.ToolSuccess || r.Discarded {
		t.Errorf("the result is %+v", r)
	}
	tasks, err := remoteagent.NewClient(o.agents[0].URL, agentKey).List(t.Context(), remoteagent.Query{})
	if err != nil || len(tasks) != 1 || tasks[0].Status != remoteagent.Completed {
		t.Errorf("the agent has the tasks %+v, %v, want one that is completed", tasks, err)
	}
}

// The hub is killed in the middle of tasks: requests continue, and the ends of tasks are stored when it is back.
func TestHubRecoversAfterKill(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 2)
	task := o.assign(t, "vm-1", "/sleep 2s\n/say built meanwhile")
	w := o.run(t, "vm-2", "/say before\n/tool echo {\"delay\":\"2s\"}\n/say after")
	sees(t, w, "the call", isCalled)
	hub := o.Processes("hub")[0]
	hub.Kill()
	tr := w.end(t, time.Minute)
	checkStream(t, tr)
	if tr.done(t).FinishReason != event.FinishStop {
		t.Errorf("got %s", tr.shape())
	}
	start(t, hub)
	if got := o.ends(t, task, remoteagent.Completed); !strings.Contains(got.Result, "built meanwhile") {
		t.Errorf("got %+v", got)
	}
	if got := o.ends(t, o.assign(t, "vm-2", "/say on"), remoteagent.Completed); !strings.Contains(got.Result, "on") {
		t.Errorf("got %+v", got)
	}
}

// busy waits until an agent says that it works, or that it does not.
func busy(t *testing.T, a stack.Agent, want remoteagent.Condition) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		info, err := remoteagent.NewClient(a.URL, agentKey).Info(t.Context())
		if err == nil && info.Status != want {
			err = fmt.Errorf("agent %s is %s, want %s", a.ID, info.Status, want)
		}
		return err
	})
}

func (o office) abort(t *testing.T, requestID string) {
	t.Helper()
	response, err := http.Post(o.URL+"/v1/requests/"+requestID+"/abort", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

// The hub is away when a client aborts: the abort reaches the agent nevertheless, at once by the runner that follows the
// task, and when the hub is back where that runner was killed.
func TestAnAbortWhileTheHubIsAway(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 2)
	works, waits := o.alone(t, "agent-runner")
	followed := o.run(t, "vm-1", `/tool echo {"delay":"5m"}`)
	left := o.run(t, "vm-2", `/tool echo {"delay":"5m"}`)
	sees(t, followed, "the call", isCalled)
	sees(t, left, "the call", isCalled)
	hub := o.Processes("hub")[0]
	hub.Kill()
	o.abort(t, followed.seen().RequestID)
	busy(t, o.agents[0], remoteagent.Idle)

	works.Kill()
	o.abort(t, left.seen().RequestID)
	start(t, waits)
	if tr := left.end(t, time.Minute); tr.Events[len(tr.Events)-1].Body.Name() != event.NameAborted {
		t.Errorf("got %s, want it aborted", tr.shape())
	}
	busy(t, o.agents[1], remoteagent.Busy)
	start(t, hub)
	busy(t, o.agents[1], remoteagent.Idle)
}

// Keys are replaced under load, and no request is refused.
func TestKeysAreReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 1)
	task := o.assign(t, "vm-1", "/say ready")
	o.ends(t, task, remoteagent.Completed)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var calls atomic.Int64
	failed := make(chan error, 8)
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				var list hubapi.AgentList
				err := o.ask(ctx, http.MethodGet, "/api/agents?live=true", nil, &list)
				if err == nil && list.Agents[0].Status == "" {
					err = errors.New("the agent did not answer")
				}
				if err != nil && ctx.Err() == nil {
					failed <- err
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range 5 {
		key := ""
		if i == 2 {
			key = "a-key-that-a-person-chose-0123456789"
		}
		if err := o.ask(t.Context(), http.MethodPost, "/api/agents/vm-1/key", map[string]any{"apiKey": key}, &struct{}{}); err != nil {
			t.Fatal(err)
		}
		if got := o.ends(t, o.assign(t, "vm-1", "/say still here"), remoteagent.Completed); got.Error != "" {
			t.Errorf("got %+v", got)
		}
	}
	cancel()
	load.Wait()
	select {
	case err := <-failed:
		t.Errorf("after %d calls: %v", calls.Load(), err)
	default:
	}
	if calls.Load() < 20 {
		t.Errorf("only %d calls were made", calls.Load())
	}
}

// An agent of ours delegates, and its screen shows what the other does.
func TestAnAgentDelegates(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 1)
	listed := o.run(t, "chief", "/tool list_agents {}").end(t, time.Minute)
	assigned := o.run(t, "chief", `/tool assign_task {"agent_id":"vm-1","task":"/say I look\n/tool echo {\"delay\":\"500ms\"}\n/say built"}`).end(t, time.Minute)
	for name, tr := range map[string]transcript{"list_agents": listed, "assign_task": assigned} {
		for _, r := range tr.results() {
			if r.Status != event.ToolSuccess {
				t.Errorf("%s: got %+v", name, r)
			}
		}
	}
	var list hubapi.AgentList
	if err := o.ask(t.Context(), http.MethodGet, "/api/agents?live=true", nil, &list); err != nil {
		t.Fatal(err)
	}
	var summary string
	for _, r := range assigned.results() {
		summary = r.Summary
	}
	_, rest, _ := strings.Cut(summary, "taskId ")
	taskID, _, _ := strings.Cut(rest, ",")
	tr := o.read(t.Context(), t, http.MethodPost, o.URL+"/v1/agents/chief/stream?include=tool_output",
		prompt(`/tool get_result {"agent_id":"vm-1","task_id":"`+taskID+`"}`)).end(t, time.Minute)
	var shown strings.Builder
	for _, e := range tr.Events {
		if r, ok := e.Body.(event.ToolResult); ok && r.Stage == event.StageDelta {
			shown.WriteString(r.Delta)
		}
	}
	for _, want := range []string{"[Agent vm-1 - Working]", "> I look", "> Done! ("} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("the screen shows %q, want %q in it (task %q)", shown.String(), want, taskID)
		}
	}
}
