package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json"
)

// long is a request that runs for ten seconds: long enough to be in the middle of.
var long = prompt("/say before", `/tool calculator {"expression":"6*7"}`, "/stream 2000 200", "/say after")

// TestAKilledProcess kills each kind of process in the middle of its work. The cases share a stack and leave it whole.
func TestAKilledProcess(t *testing.T) {
	l := newLab(t, setup{counts: map[string]int{"gateway": 2, "agent-runner": 2, "tool-executor": 2}})
	tests := []struct {
		sentence string
		run      func(*testing.T, lab)
	}{
		{"a runner's request is taken over, and its reader reads on", aRunnerDies},
		{"a runner that is frozen and wakes writes nothing any more", aRunnerFreezes},
		{"a gateway's client continues at another one", aGatewayDies},
		{"a safe tool runs again elsewhere", anExecutorDies},
		{"history misses nothing", historyDies},
		{"readers and runners wait for nats-server", natsDies},
		{"readers and runners wait ten seconds for nats-server", natsIsAway},
		{"everything continues without Redis", redisDies},
		{"without PostgreSQL requests run, and questions are answered later", postgresDies},
	}
	for _, test := range tests {
		if !t.Run(test.sentence, func(t *testing.T) { test.run(t, l) }) {
			return // the stack may be broken
		}
	}
}

func aRunnerDies(t *testing.T, l lab) {
	works, waits := l.alone(t, "agent-runner")
	w := l.post(t, 0, long)
	w.until(t, 200)
	start(t, waits)
	works.Kill()
	killed := time.Now()
	tr := w.end(t, 2*time.Minute)
	d := l.finished(t, tr)
	if d.FinishReason != event.FinishStop || discarded(tr) != 1 || len(find[event.ToolCall](tr)) == 0 {
		t.Errorf("got %s with %d discarded blocks, want stop with the one that was open", d.FinishReason, discarded(tr))
	}
	if got := tr.results()["calculator"]; got.Status != event.ToolSuccess || len(find[event.ToolResult](tr)) != 2 {
		t.Errorf("the tool ran %d times with %s, want once", len(find[event.ToolResult](tr))/2, got.Status)
	}
	t.Logf("taken over after %s; done %s after the kill", w.stall(), time.Since(killed).Round(time.Millisecond))
	start(t, works)
}

func aRunnerFreezes(t *testing.T, l lab) {
	works, waits := l.alone(t, "agent-runner")
	w := l.post(t, 0, prompt("/stream 600 200", "/say after"))
	w.until(t, 100)
	start(t, waits)
	works.Signal(syscall.SIGSTOP)
	defer works.Signal(syscall.SIGCONT)
	eventually(t, time.Minute, func() error {
		if discarded(w.seen()) == 0 {
			return fmt.Errorf("no runner takes over; the longest stall was %s", w.stall())
		}
		return nil
	})
	works.Signal(syscall.SIGCONT)
	l.finished(t, w.end(t, time.Minute))
	eventually(t, 10*time.Second, func() error {
		if metric(t, works, "agentbus_runs_total", `status="fenced"`) != 1 {
			return fmt.Errorf("the runner that woke does not say that it was fenced")
		}
		return nil
	})
}

func aGatewayDies(t *testing.T, l lab) {
	gateway := l.Processes("gateway")[0]
	w := l.post(t, 0, long)
	w.until(t, 300)
	gateway.Kill()
	first, err := w.cut(t, 10*time.Second)
	if err == nil {
		t.Error("the client of a killed gateway saw a clean end")
	}
	rest := l.resume(t, 1, first.RequestID, first.LastID).end(t, time.Minute)
	start(t, gateway)
	whole := join(first, rest)
	if d := l.finished(t, whole); d.FinishReason != event.FinishStop || discarded(whole) != 0 {
		t.Errorf("got %s with %d discarded blocks, want the runner undisturbed", d.FinishReason, discarded(whole))
	}
}

func anExecutorDies(t *testing.T, l lab) {
	works, waits := l.alone(t, "tool-executor")
	w := l.post(t, 0, prompt(`/tool echo {"text":"one two three four five","delay":"3s"}`))
	toolRuns(t, w)
	start(t, waits)
	works.Kill()
	tr := w.end(t, time.Minute)
	l.finished(t, tr)
	if got := tr.results()["echo"]; got.Status != event.ToolSuccess {
		t.Errorf("got %s, want success: the tool changes nothing, so it may run again", got.Status)
	}
	t.Logf("the call ran again after %s", w.stall())
	start(t, works)
}

// toolRuns waits for the first output of a tool: its result starts with it. Clients do not see the output itself.
func toolRuns(t *testing.T, w *watch) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		for _, r := range find[event.ToolResult](w.seen()) {
			if r.Stage == event.StageStart {
				return nil
			}
		}
		return fmt.Errorf("the tool does not run: %s", w.seen().shape())
	})
}

// TestAnUnsafeToolDoesNotRunTwice kills an executor in the middle of a tool that must not run again.
func TestAnUnsafeToolDoesNotRunTwice(t *testing.T) {
	l := newLab(t, setup{
		counts: map[string]int{"tool-executor": 2}, database: database(t), echo: tool.EffectUnsafe,
		agents: "agents:\n  open: {backend: scripted, tools: [echo], toolOutput: allow}\n",
	})
	works, waits := l.alone(t, "tool-executor")
	w := l.ask(t, "open", prompt(`/tool echo {"text":"one two three four five","delay":"3s"}`))
	toolRuns(t, w)
	start(t, waits)
	works.Kill()
	tr := w.end(t, time.Minute)
	l.finished(t, tr)
	if got := tr.results()["echo"]; got.Status != event.ToolUnknown {
		t.Errorf("got %s, want unknown: the tool may have done a part", got.Status)
	}
	output := l.read(t.Context(), t, http.MethodGet, l.Gateways[0]+"/v1/requests/"+tr.RequestID+"/stream?include=tool_output", "").end(t, time.Minute)
	printed := ""
	for _, r := range find[event.ToolResult](output) {
		printed += r.Delta
	}
	if strings.Count(printed, "one") != 1 {
		t.Errorf("the tool printed %q: it ran again", printed)
	}
}

// answer asks a gateway for JSON.
func answer[T any](t *testing.T, url string) (T, int) {
	t.Helper()
	var value T
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return value, response.StatusCode
	}
	if err := json.UnmarshalRead(response.Body, &value); err != nil {
		t.Fatal(err)
	}
	return value, response.StatusCode
}

// remembered waits until history knows the end of requests, and that each is on its thread with an answer.
func (l lab) remembered(t *testing.T, requests ...transcript) {
	t.Helper()
	for _, tr := range requests {
		eventually(t, time.Minute, func() error {
			q, status := answer[historyapi.Request](t, l.URL+"/v1/requests/"+tr.RequestID)
			if status != http.StatusOK || q.Status != historyapi.StatusDone {
				return fmt.Errorf("request %s is %q with %d", tr.RequestID, q.Status, status)
			}
			page, status := answer[historyapi.MessagePage](t, l.URL+"/v1/threads/"+tr.ThreadID+"/messages")
			if status != http.StatusOK || len(page.Messages) < 2 {
				return fmt.Errorf("thread %s has %d messages, with %d", tr.ThreadID, len(page.Messages), status)
			}
			return nil
		})
	}
}

func historyDies(t *testing.T, l lab) {
	history := l.Processes("history")[0]
	var watches []*watch
	for range 20 {
		watches = append(watches, l.post(t, 0, prompt("/stream 300 100", "/say after")))
	}
	watches[0].until(t, 50)
	history.Kill()
	watches[0].until(t, 150)
	start(t, history)
	var all []transcript
	for _, w := range watches {
		tr := w.end(t, time.Minute)
		l.finished(t, tr)
		all = append(all, tr)
	}
	l.remembered(t, all...)
}

func natsDies(t *testing.T, l lab) { natsRestarts(t, l, 0) }

func natsIsAway(t *testing.T, l lab) { natsRestarts(t, l, 10*time.Second) }

func natsRestarts(t *testing.T, l lab, away time.Duration) {
	nats := l.Processes("nats")[0]
	watches := []*watch{l.post(t, 0, long), l.post(t, 1, long), l.post(t, 1, prompt(`/tool echo {"text":"a b c d e","delay":"4s"}`))}
	for _, w := range watches[:2] {
		w.until(t, 200)
	}
	nats.Kill()
	time.Sleep(away)
	start(t, nats)
	for _, w := range watches {
		tr := w.end(t, 2*time.Minute)
		if d := l.finished(t, tr); d.FinishReason != event.FinishStop {
			t.Errorf("got %s, want stop", d.FinishReason)
		}
		t.Logf("away %s: longest stall %s, %d blocks begun again", away, w.stall(), discarded(tr))
	}
	all := make([]transcript, 0, len(watches))
	for _, w := range watches {
		all = append(all, w.seen())
	}
	l.remembered(t, all...)
}

func redisDies(t *testing.T, l lab) {
	redis := l.Processes("redis")[0]
	asks := l.post(t, 0, prompt(`/approve echo {"text":"x"}`)).end(t, time.Minute)
	key := header{"Idempotency-Key", newKey()}
	keyed := prompt("/say once")
	before := l.post(t, 0, keyed, key).end(t, time.Minute)
	runs := l.post(t, 0, long)
	runs.until(t, 100)
	redis.Kill()

	again := l.post(t, 1, keyed, key)
	if tr := again.end(t, time.Minute); !slices.Equal(tr.Lines, before.Lines) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the key of %s made %s", before.RequestID, tr.RequestID)
	}
	actionID := only[event.Continuation](t, asks).ActionID
	approved := l.post(t, 1, resolve(asks.ThreadID, success(actionID, ""))).end(t, time.Minute)
	if got := approved.results()["echo"]; got.Status != event.ToolSuccess {
		t.Errorf("the approved tool ended with %q", got.Status)
	}
	l.sends(t, "/v1/agents/demo/stream", resolve(asks.ThreadID, success(actionID, "")), http.StatusBadRequest)
	stopped := l.post(t, 0, long)
	stopped.until(t, 100)
	l.sends(t, "/v1/requests/"+stopped.seen().RequestID+"/abort", "", http.StatusAccepted)
	only[event.Aborted](t, stopped.end(t, 20*time.Second))

	l.finished(t, runs.end(t, time.Minute))
	start(t, redis) // and empty
	if tr := l.post(t, 0, keyed, key).end(t, time.Minute); !slices.Equal(tr.Lines, before.Lines) {
		t.Errorf("after the loss of redis the key of %s made %s", before.RequestID, tr.RequestID)
	}
	l.finished(t, approved)
}

// sends posts to the first gateway and checks the status of the answer.
func (l lab) sends(t *testing.T, path, body string, status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != status {
		t.Fatalf("POST %s answers %s: %s; want %d", path, response.Status, readAll(t, response), status)
	}
}

func postgresDies(t *testing.T, l lab) {
	postgres := l.Processes("postgres")[0]
	before := l.post(t, 0, prompt("/say before")).end(t, time.Minute)
	l.remembered(t, before)
	runs := l.post(t, 0, long)
	runs.until(t, 100)
	crash(t, postgres)

	next := l.post(t, 1, requestBody(event.AgentRequest{
		ThreadID: before.ThreadID, Messages: []event.InputMessage{event.UserText("/say during")},
	}))
	during := next.end(t, time.Minute)
	l.finished(t, runs.end(t, time.Minute))
	for _, path := range []string{"/v1/threads", "/v1/threads/" + before.ThreadID + "/messages"} {
		if _, status := answer[historyapi.ThreadPage](t, l.URL+path); status != http.StatusServiceUnavailable {
			t.Errorf("%s answers %d, want 503", path, status)
		}
	}
	start(t, postgres)
	l.remembered(t, during, runs.seen())
}

// crash ends PostgreSQL without a checkpoint, so that it must recover. Killed, it would leave children behind.
func crash(t *testing.T, postgres *testcluster.Process) {
	t.Helper()
	postgres.Signal(syscall.SIGQUIT)
	if !postgres.Wait(10 * time.Second) {
		t.Fatal("PostgreSQL does not end")
	}
}
