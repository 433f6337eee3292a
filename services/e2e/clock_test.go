package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/e2e/stack"
)

// clocks are agents whose limits are shorter than the clocks of the tests are wrong.
const clocks = `
agents:
  brief:
    description: may take five minutes, and waits five minutes for its user
    backend: scripted
    tools: [echo]
    limits: {time: 5m}
    actionTTL: 5m
  hasty:
    description: waits a moment for its user
    backend: scripted
    tools: [echo]
    actionTTL: 1s
`

// wrong is how far clocks are off in these tests.
const wrong = 10 * time.Minute

// TestWrongClocksChangeNoOutcome runs processes whose wall clocks are ten minutes ahead or behind beside those whose
// clocks are right. The cases share a stack, and each adds the processes that it is about.
func TestWrongClocksChangeNoOutcome(t *testing.T) {
	l := newLab(t, setup{database: database(t), agents: clocks})
	tests := []struct {
		sentence string
		run      func(*testing.T, lab)
	}{
		{"calls run on any executor", callsRunOnAnyExecutor},
		{"no gateway ends what waits for its user, or begins it again", anyGatewayResolves},
		{"no runner ends the requests of another", noRunnerEndsOthers},
		{"any runner takes over", anyRunnerTakesOver},
		{"sessions are listed in the order in which they changed", sessionsKeepTheirOrder},
	}
	for _, test := range tests {
		if !t.Run(test.sentence, func(t *testing.T) { test.run(t, l) }) {
			return // the stack may be broken
		}
	}
}

// skewed adds a process of a service whose clock is ahead, and one whose clock is behind.
func (l lab) skewed(t *testing.T, name string) (ahead, behind *stack.Process) {
	t.Helper()
	for _, by := range []time.Duration{wrong, -wrong} {
		if err := l.StartSkewed(t.Context(), name, by); err != nil {
			t.Fatal(err)
		}
	}
	all := l.Processes(name)
	return all[len(all)-2], all[len(all)-1]
}

// askAt is ask at one of the gateways.
func (l lab) askAt(t *testing.T, gateway int, agent, body string) *watch {
	t.Helper()
	return l.read(t.Context(), t, http.MethodPost, l.Gateways[gateway]+"/v1/agents/"+agent+"/stream", body)
}

func callsRunOnAnyExecutor(t *testing.T, l lab) {
	right := l.Processes("tool-executor")[0]
	for _, one := range []func() *stack.Process{
		func() *stack.Process { ahead, behind := l.skewed(t, "tool-executor"); behind.Kill(); return ahead },
		func() *stack.Process { behind := l.Processes("tool-executor")[2]; start(t, behind); return behind },
	} {
		p := one()
		right.Kill()
		tr := l.ask(t, "brief", prompt(`/tool echo {"text":"one"}`, "/say after")).end(t, time.Minute)
		if got := tr.results()["echo"]; got.Status != event.ToolSuccess {
			t.Errorf("the call ended with %s: %s", got.Status, got.Summary)
		}
		l.finished(t, tr)
		p.Kill()
		start(t, right)
	}
}

func anyGatewayResolves(t *testing.T, l lab) {
	l.skewed(t, "gateway")
	for gateway := range l.Gateways {
		tr := l.askAt(t, gateway, "brief", prompt(`/approve echo {"text":"careful"}`, "/say after")).end(t, time.Minute)
		action := only[event.Continuation](t, tr)
		next := l.askAt(t, gateway, "brief", resolve(tr.ThreadID, success(action.ActionID, ""))).end(t, time.Minute)
		if got := next.results()["echo"]; got.Status != event.ToolSuccess {
			t.Errorf("gateway %d: the approved call ended with %s: %s", gateway, got.Status, got.Summary)
		}
		late := l.ask(t, "hasty", prompt(`/approve echo {"text":"careful"}`)).end(t, time.Minute)
		time.Sleep(time.Second + clockTolerance)
		_, err := try(t.Context(), http.MethodPost, l.Gateways[gateway]+"/v1/agents/hasty/stream",
			resolve(late.ThreadID, success(only[event.Continuation](t, late).ActionID, "")))
		if err == nil || !strings.Contains(err.Error(), "invalid_action_id") {
			t.Errorf("gateway %d: an approval that comes too late is answered with %v", gateway, err)
		}
	}
}

func noRunnerEndsOthers(t *testing.T, l lab) {
	speaks := l.ask(t, "brief", prompt("/stream 1200 20"))
	silent := l.ask(t, "brief", prompt("/sleep 55s", "/say after"))
	speaks.until(t, 10)
	ahead, behind := l.skewed(t, "agent-runner")
	for name, w := range map[string]*watch{"one that speaks": speaks, "one that is silent": silent} {
		tr := w.end(t, 3*time.Minute)
		if d := l.finished(t, tr); d.FinishReason != event.FinishStop || discarded(tr) != 0 {
			t.Errorf("%s ended with %s, %d discarded blocks", name, d.FinishReason, discarded(tr))
		}
	}
	ahead.Kill()
	behind.Kill()
}

func anyRunnerTakesOver(t *testing.T, l lab) {
	all := l.Processes("agent-runner")
	right, ahead, behind := all[0], all[1], all[2]
	works := right
	for _, next := range []*stack.Process{ahead, behind, right} { // each takes over from another
		w := l.ask(t, "brief", prompt("/say before", `/tool clock {}`, "/stream 600 100"))
		w.until(t, 50)
		start(t, next)
		works.Kill()
		if d := l.finished(t, w.end(t, time.Minute)); d.FinishReason != event.FinishStop {
			t.Errorf("it ended with %s", d.FinishReason)
		}
		works = next
	}
}

func sessionsKeepTheirOrder(t *testing.T, l lab) {
	var want []string
	for i, gateway := range []int{1, 0, 2, 0, 1} { // ahead, right, behind, …
		tr := l.askAt(t, gateway, "brief", prompt(fmt.Sprintf("/say %d", i))).end(t, time.Minute)
		l.finished(t, tr)
		want = append([]string{tr.ThreadID}, want...)
	}
	type list struct {
		Threads []struct {
			ThreadID string `json:"threadId"`
		} `json:"threads"`
	}
	page, status := answer[list](t, l.URL+"/v1/threads?limit=5")
	var got []string
	for _, thread := range page.Threads {
		got = append(got, thread.ThreadID)
	}
	if status != http.StatusOK || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got threads %v with %d, want the newest first: %v", got, status, want)
	}
}
