package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/tool"
)

// wary are agents that do something else than the usual when a process dies.
const wary = `
agents:
  fragile:
    description: ends with its runner
    backend: scripted
    onCrash: error
  careful:
    description: asks before it does something twice
    backend: scripted
    tools: [echo]
    onUnknown: ask
  queueing:
    description: lets requests wait
    backend: scripted
    onBusy: queue
`

// ask starts a request of an agent at the first gateway, and reads it.
func (l lab) ask(t *testing.T, agent, body string) *watch {
	t.Helper()
	return l.read(t.Context(), t, http.MethodPost, l.URL+"/v1/agents/"+agent+"/stream", body)
}

// TestAgentsSayWhatACrashMeans kills runners and executors in the middle of their work. The cases share a stack and leave
// it whole.
func TestAgentsSayWhatACrashMeans(t *testing.T) {
	l := newLab(t, setup{
		counts: map[string]int{"agent-runner": 2, "tool-executor": 2}, database: database(t),
		echo: tool.EffectUnsafe, agents: wary,
	})
	tests := []struct {
		sentence string
		run      func(*testing.T, lab)
	}{
		{"a request may end with its runner", aRequestEndsWithItsRunner},
		{"what waits on a thread runs after a takeover", aWaitingRequestRuns},
		{"a user decides whether an interrupted tool runs again", aUserDecides},
	}
	for _, test := range tests {
		if !t.Run(test.sentence, func(t *testing.T) { test.run(t, l) }) {
			return // the stack may be broken
		}
	}
}

func aRequestEndsWithItsRunner(t *testing.T, l lab) {
	works, waits := l.alone(t, "agent-runner")
	w := l.ask(t, "fragile", prompt("/say before", `/tool clock {}`, "/stream 2000 200"))
	w.until(t, 100)
	start(t, waits)
	works.Kill()
	tr := w.end(t, time.Minute)
	checkStream(t, tr)
	failed := only[event.Error](t, tr)
	if failed.Code != apierr.AgentError || !failed.Retryable || discarded(tr) != 0 {
		t.Errorf("got %+v with %d discarded blocks, want a retryable error and the text that came", failed, discarded(tr))
	}
	start(t, works)
}

func aWaitingRequestRuns(t *testing.T, l lab) {
	works, waits := l.alone(t, "agent-runner")
	first := l.ask(t, "queueing", prompt("/stream 600 100"))
	first.until(t, 50)
	second := l.ask(t, "queueing", requestBody(event.AgentRequest{
		ThreadID: first.seen().ThreadID, Messages: []event.InputMessage{event.UserText("/say after")},
	}))
	start(t, waits)
	works.Kill()
	one, two := first.end(t, time.Minute), second.end(t, time.Minute)
	if l.finished(t, one); answerText(l.finished(t, two)) != "after" {
		t.Errorf("got %s", two.shape())
	}
	if ended, began := one.Events[len(one.Events)-1].Time, two.Events[0].Time; began.Before(ended) {
		t.Errorf("the second began at %v, the first ended at %v", began, ended)
	}
	start(t, works)
}

func aUserDecides(t *testing.T, l lab) {
	works, waits := l.alone(t, "tool-executor")
	w := l.ask(t, "careful", prompt(`/tool echo {"text":"one two three four five","delay":"3s"}`, "/say done"))
	toolRuns(t, w)
	start(t, waits)
	works.Kill()
	tr := w.end(t, time.Minute)
	action := only[event.Continuation](t, tr)
	if d := l.finished(t, tr); d.FinishReason != event.FinishActionRequired || !action.Payload.Again {
		t.Fatalf("it ended with %s and asks %+v", d.FinishReason, action)
	}
	again := l.ask(t, "careful", resolve(tr.ThreadID, success(action.ActionID, ""))).end(t, time.Minute)
	if got := again.results()["echo"]; got.Status != event.ToolSuccess || answerText(l.finished(t, again)) != "done" {
		t.Errorf("got %s: %s", got.Status, again.shape())
	}
	page, status := answer[historyapi.MessagePage](t, l.URL+"/v1/threads/"+tr.ThreadID+"/messages")
	if status != http.StatusOK || len(page.Messages) == 0 || !strings.Contains(page.Messages[0].Input.Text(), "/tool echo") {
		t.Errorf("the thread's messages are %+v, with %d", page, status)
	}
	start(t, works)
}
