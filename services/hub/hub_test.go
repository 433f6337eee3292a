package hub_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub"
	"github.com/go-json-experiment/json"
)

// link is what tests and hubs use of a *bus.Bus.
type link interface {
	hub.Bus
	hubapi.Asker
}

// house is a running hub.
type house struct {
	t     *testing.T
	bus   link
	url   string
	door  hubapi.Client
	stop  func()
	drain func()

	routes []string // of a guarded hub, and how it gets keys
	putKey func(context.Context, bus.KeyRecord) error
}

func nearby() config.Hub {
	return config.Hub{PlainHTTP: true, Allow: []string{"127.0.0.0/8"}, OfflineAfter: config.Duration(2 * time.Second)}
}

// open runs a hub until the test ends, or until it is stopped.
func open(t *testing.T, b link, database string, h config.Hub) house {
	t.Helper()
	o, err := hub.New(t.Context(), hub.Deps{
		Bus: b, DatabaseURL: database, Secret: []byte("0123456789abcdef"), Log: slog.New(slog.DiscardHandler),
		Config: config.Config{Hub: h, Agents: map[string]config.Agent{"demo": {}}}, Poll: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	server := httptest.NewServer(o.Handler())
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the hub ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return house{t: t, bus: b, url: server.URL, door: hubapi.NewClient(b), stop: stop, drain: o.Drain}
}

func memory(t *testing.T) house {
	t.Helper()
	return open(t, bustest.New(t), "sqlite::memory:", nearby())
}

// ask calls the hub over HTTP and returns the status and, of a refusal, what it says.
func (h house) ask(method, path, key string, body, answer any) (int, string) {
	h.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, bytes.NewReader(text))
	if err != nil {
		h.t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(response.Body); err != nil {
		h.t.Fatal(err)
	}
	if response.StatusCode < http.StatusMultipleChoices && answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			h.t.Fatal(err)
		}
	}
	return response.StatusCode, string(text)
}

func (h house) register(m *machine) {
	h.t.Helper()
	if status, text := h.ask(http.MethodPost, "/api/agents", "", map[string]any{"url": m.URL, "apiKey": machineKey}, nil); status != http.StatusCreated {
		h.t.Fatalf("got %d %s", status, text)
	}
}

func (h house) assign(task string) hubapi.Task {
	h.t.Helper()
	got, err := h.door.AssignTask(h.t.Context(), hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: task})
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func ref(taskID string) hubapi.TaskRef {
	return hubapi.TaskRef{Tenant: "default", AgentID: "vm-1", TaskID: taskID}
}

// eventually tries until it works: what is waited for happens in the hub's own goroutines, over real sockets.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

func (h house) online(want bool) {
	h.t.Helper()
	eventually(h.t, func() error {
		l, err := h.door.ListAgents(h.t.Context(), hubapi.AgentsQuery{Tenant: "default"})
		if err == nil && (len(l.Agents) != 1 || l.Agents[0].IsOnline != want) {
			err = fmt.Errorf("got %+v, want online %v", l.Agents, want)
		}
		return err
	})
}

// An agent is asked before it is saved.
func TestAnAgentIsRegistered(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	for name, body := range map[string]map[string]any{
		"no URL":                   {"apiKey": machineKey},
		"no key":                   {"url": m.URL},
		"a wrong key":              {"url": m.URL, "apiKey": "wrong"},
		"no server at the address": {"url": "http://127.0.0.1:1", "apiKey": machineKey},
		"a forbidden address":      {"url": "http://10.1.2.3", "apiKey": machineKey},
		"a name of ours":           {"url": m.URL, "apiKey": machineKey, "id": "demo"},
		"an invalid id":            {"url": m.URL, "apiKey": machineKey, "id": "a.b"},
		"an unknown member":        {"url": m.URL, "apiKey": machineKey, "colour": "red"},
	} {
		if status, text := h.ask(http.MethodPost, "/api/agents", "", body, nil); status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", name, status, text)
		}
	}
	h.register(m)
	var got hubapi.Agent
	if status, text := h.ask(http.MethodGet, "/api/agents/vm-1", "", nil, &got); status != http.StatusOK || strings.Contains(text, machineKey) {
		t.Errorf("got %d %s", status, text)
	}
	if got.Name != "VM 1" || !got.IsOnline || len(got.Capabilities) != 1 || got.CreatedAt.IsZero() {
		t.Errorf("got %+v", got)
	}
	if status, _ := h.ask(http.MethodPost, "/api/agents", "", map[string]any{"url": m.URL, "apiKey": machineKey}, nil); status != http.StatusBadRequest {
		t.Errorf("a second one of that id: got %d", status)
	}
	if _, err := h.door.Connect(t.Context(), hubapi.AgentRef{Tenant: "other", AgentID: "vm-1"}); apierr.CodeOf(err) != apierr.AgentNotFound {
		t.Errorf("another tenant: got %v", err)
	}
	if status, _ := h.ask(http.MethodDelete, "/api/agents/vm-1", "", nil, nil); status != http.StatusNoContent {
		t.Errorf("removed: got %d", status)
	}
	if status, _ := h.ask(http.MethodGet, "/api/agents/vm-1", "", nil, nil); status != http.StatusNotFound {
		t.Errorf("after that: got %d, want 404", status)
	}
}

// An agent registers itself with a token, once, and shows with its own key that it lives.
func TestAnAgentRegistersItselfByToken(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	var token struct {
		Token string `json:"token"`
	}
	h.ask(http.MethodPost, "/api/agents/tokens", "", nil, &token)
	in := remoteagent.Registration{Token: token.Token, ID: "vm-1", URL: m.URL, Name: "VM 1", Key: machineKey}
	if status, text := h.ask(http.MethodPost, remoteagent.PathRegister, "", in, nil); status != http.StatusCreated {
		t.Fatalf("got %d %s", status, text)
	}
	if status, _ := h.ask(http.MethodPost, remoteagent.PathRegister, "", in, nil); status != http.StatusUnauthorized {
		t.Errorf("a second use of the token: got %d, want 401", status)
	}
	beat := remoteagent.Heartbeat{AgentID: "vm-1", Status: remoteagent.Idle, Stopping: true}
	for key, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, machineKey: http.StatusNoContent} {
		if status, text := h.ask(http.MethodPost, remoteagent.PathHeartbeat("vm-1"), key, beat, nil); status != want {
			t.Errorf("key %q: got %d %s, want %d", key, status, text, want)
		}
	}
	if status, _ := h.ask(http.MethodPost, remoteagent.PathHeartbeat("vm-2"), machineKey, beat, nil); status != http.StatusUnauthorized {
		t.Errorf("an agent that is not there: got %d", status)
	}
}

// Without a sign of life an agent is offline and gets no tasks; with one it is back.
func TestASilentAgentIsOffline(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	m.set(func() { m.ill = true })
	h.online(false)
	_, err := h.door.AssignTask(t.Context(), hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "x"})
	if apierr.CodeOf(err) != apierr.Unavailable || m.prompts() != "" {
		t.Errorf("got %v, and the agent was given %q", err, m.prompts())
	}
	m.set(func() { m.ill = false })
	h.online(true)
}

// A machine that sleeps takes connections and never answers: what it does not answer must not put off for long that it
// counts as offline.
func TestAFrozenAgentIsOfflineNearTheConfiguredTime(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	frozen := time.Now()
	m.set(func() { m.frozen = true })
	h.online(false)
	if took := time.Since(frozen); took > remoteagent.AskTimeout {
		t.Errorf("with offlineAfter %v the agent was offline after %v", time.Duration(nearby().OfflineAfter), took)
	}
	m.set(func() { m.frozen = false })
	h.online(true)
}

// The status has the wording of the TARS hub protocol, and the task is read again when the agent is back.
func TestUnavailableAgentIsReportedAndRetried(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	task := h.assign("the auth system")
	m.set(func() { m.ill = true })
	const want = "Agent [vm-1] went offline while working on [the auth system]. The task may be partially complete."
	if got, err := h.door.CheckStatus(t.Context(), ref(task.TaskID)); err != nil || got.Notice != want || got.AgentOnline {
		t.Errorf("got %+v, %v", got, err)
	}
	m.end(task.TaskID, remoteagent.Completed, "built")
	m.set(func() { m.ill = false })
	eventually(t, func() error {
		got, err := h.door.GetResult(t.Context(), ref(task.TaskID))
		if err == nil && (got.Result != "built" || got.Notice != "" || got.CompletedAt.IsZero()) {
			err = fmt.Errorf("got %+v", got)
		}
		return err
	})
}

// It is unknown whether the agent took the task; it is found by its key, and never assigned twice.
func TestTaskWithLostResponseIsFound(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	m.set(func() { m.slow = true })
	a := hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "once", Key: "call_1"}
	if _, err := h.door.AssignTask(t.Context(), a); apierr.CodeOf(err) != apierr.Unavailable {
		t.Fatalf("got %v, want that it is not known", err)
	}
	eventually(t, func() error {
		got, err := h.door.AssignTask(t.Context(), a)
		if err == nil && got.TaskID != "task_1" {
			t.Fatalf("got %+v, want the first task", got)
		}
		return err
	})
	if m.prompts() != "once" {
		t.Errorf("the agent was given %q", m.prompts())
	}
}

func TestTaskWithLostResponseIsCancelledByKey(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	m.set(func() { m.slow = true })
	a := hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "once", Key: "call_1"}
	if _, err := h.door.AssignTask(t.Context(), a); apierr.CodeOf(err) != apierr.Unavailable {
		t.Fatalf("got %v, want that it is not known", err)
	}
	byKey := hubapi.TaskRef{Tenant: "default", AgentID: "vm-1", Key: a.Key}
	if got, err := h.door.CancelTask(t.Context(), byKey); err != nil || !got.Pending && !got.Late && got.Status != remoteagent.Cancelled {
		t.Fatalf("got %+v, %v, want that it is to be cancelled", got, err)
	}
	eventually(t, func() error {
		got, err := h.door.GetResult(t.Context(), ref("task_1"))
		if err == nil && (got.Status != remoteagent.Cancelled || got.CompletedAt.IsZero()) {
			err = fmt.Errorf("got %+v, want it cancelled", got)
		}
		return err
	})
	if m.prompts() != "once" {
		t.Errorf("the agent was given %q", m.prompts())
	}
	if got, err := h.door.CancelTask(t.Context(), byKey); err != nil || !got.Late {
		t.Errorf("once more: got %+v, %v", got, err)
	}
}

// A cancel may overtake the assignment that it is for.
func TestAnAssignmentBehindItsCancelIsRefused(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	a := hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "late", Key: "call_1"}
	if got, err := h.door.CancelTask(t.Context(), hubapi.TaskRef{Tenant: "default", AgentID: "vm-1", Key: a.Key}); err != nil || !got.Late {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got, err := h.door.AssignTask(t.Context(), a); apierr.CodeOf(err) != apierr.AgentError {
		t.Errorf("got %+v, %v, want that it was cancelled", got, err)
	}
	other := a
	other.Tenant = "globex" // the same key of another tenant is another task
	if _, err := h.door.AssignTask(t.Context(), other); apierr.CodeOf(err) != apierr.AgentNotFound {
		t.Errorf("another tenant: got %v", err)
	}
	if m.prompts() != "" {
		t.Errorf("the agent was given %q", m.prompts())
	}
}

// A task that the agent never took may be given again under its key, and is watched like any other.
func TestATaskThatWasNeverTakenIsGivenAgain(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	m.set(func() { m.deaf = true })
	a := hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "again", Key: "call_1"}
	if _, err := h.door.AssignTask(t.Context(), a); apierr.CodeOf(err) != apierr.Unavailable {
		t.Fatalf("got %v, want that it is not known", err)
	}
	m.set(func() { m.deaf = false })
	var task hubapi.Task
	eventually(t, func() (err error) {
		task, err = h.door.AssignTask(t.Context(), a)
		return err
	})
	m.end(task.TaskID, remoteagent.Completed, "done")
	eventually(t, func() error {
		got, err := h.door.GetResult(t.Context(), ref(task.TaskID))
		if err == nil && (got.Result != "done" || got.CompletedAt.IsZero()) {
			err = fmt.Errorf("got %+v", got)
		}
		return err
	})
	if m.prompts() != "again" {
		t.Errorf("the agent was given %q", m.prompts())
	}
}

// Tasks are bounded by what is left, and stopped when nothing is.
func TestBudgetsStopWork(t *testing.T) {
	t.Parallel()
	set := nearby()
	set.Budget = config.Budget{AgentUSD: 3, TotalUSD: 100}
	h, m := open(t, bustest.New(t), "sqlite::memory:", set), newMachine(t)
	h.register(m)
	task := h.assign("expensive")
	if got := m.assigned[0]; got.MaxBudgetUSD != 3 || got.MaxTurns != hubapi.DefaultMaxTurns {
		t.Errorf("got %+v, want what the agent has left", got)
	}
	m.say(task.TaskID, remoteagent.Progress{TurnsCompleted: 1, CostUSD: 3.5})
	eventually(t, func() error {
		got, err := h.door.GetResult(t.Context(), ref(task.TaskID))
		if err == nil && (got.Status != remoteagent.MaxBudget || !strings.Contains(got.Error, "budget of agent vm-1")) {
			err = fmt.Errorf("got %+v", got)
		}
		return err
	})
	_, err := h.door.AssignTask(t.Context(), hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "more"})
	if apierr.CodeOf(err) != apierr.RateLimitExceeded {
		t.Errorf("got %v, want that the budget is used up", err)
	}
	if l, err := h.door.ListAgents(t.Context(), hubapi.AgentsQuery{Tenant: "default"}); err != nil || l.TotalCostUSD != 3.5 || l.Agents[0].CostUSD != 3.5 {
		t.Errorf("got %+v, %v", l, err)
	}
}

// Progress comes as it happens, in the form that people see.
func TestProgressIsFollowed(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	task := h.assign("build")
	m.say(task.TaskID,
		remoteagent.TextDelta{Text: "Reading the project"}, remoteagent.TextDelta{Text: " structure...\n"},
		remoteagent.ToolStart{Tool: "Edit", File: "a.go", Activity: "Editing a.go"}, remoteagent.ToolEnd{Tool: "Edit", File: "a.go", Success: true},
		remoteagent.Progress{TurnsCompleted: 28, CostUSD: 1.23})
	m.end(task.TaskID, remoteagent.Completed, "done")
	var lines []string
	q := hubapi.FollowQuery{TaskRef: ref(task.TaskID)}
	eventually(t, func() error {
		p, err := h.door.Follow(t.Context(), q)
		if err != nil {
			return err
		}
		lines, q.After = append(lines, p.Lines...), p.Next
		if p.Task.CompletedAt.IsZero() {
			return fmt.Errorf("got %q so far", lines)
		}
		return nil
	})
	want := "[VM 1 - Working]\n> Reading the project structure...\n> Editing a.go\n> Done! (28 turns, $1.23)"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAHubThatIsStartedAgainWatchesItsTasks(t *testing.T) {
	t.Parallel()
	b, database, m := bustest.New(t), "sqlite:"+filepath.Join(t.TempDir(), "hub.db"), newMachine(t)
	h := open(t, b, database, nearby())
	h.register(m)
	task := h.assign("long")
	h.stop()
	m.say(task.TaskID, remoteagent.Progress{TurnsCompleted: 2, CostUSD: 0.5})
	m.end(task.TaskID, remoteagent.Completed, "ended meanwhile")
	h = open(t, b, database, nearby())
	eventually(t, func() error {
		l, err := h.door.ListAgents(t.Context(), hubapi.AgentsQuery{Tenant: "default"})
		if err == nil && l.TotalCostUSD != 0.5 {
			err = fmt.Errorf("got %+v", l)
		}
		return err
	})
	if got, err := h.door.GetResult(t.Context(), ref(task.TaskID)); err != nil || got.Result != "ended meanwhile" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A cancel that does not reach an agent is sent when the agent is back, also by a hub that was restarted.
func TestACancelReachesAnAgentThatWasAway(t *testing.T) {
	t.Parallel()
	b, database, m := bustest.New(t), "sqlite:"+filepath.Join(t.TempDir(), "hub.db"), newMachine(t)
	h := open(t, b, database, nearby())
	h.register(m)
	first, second := h.assign("one"), h.assign("two")
	m.set(func() { m.ill = true })
	cancel := func(task hubapi.Task) {
		t.Helper()
		if got, err := h.door.CancelTask(t.Context(), ref(task.TaskID)); err != nil || !got.Pending || got.Status != remoteagent.Running {
			t.Fatalf("got %+v, %v, want that it is still to be cancelled", got, err)
		}
	}
	back := func(task hubapi.Task) {
		t.Helper()
		m.set(func() { m.ill = false })
		eventually(t, func() error {
			got, err := h.door.GetResult(t.Context(), ref(task.TaskID))
			if err == nil && (got.Status != remoteagent.Cancelled || got.CompletedAt.IsZero()) {
				err = fmt.Errorf("got %+v, want it cancelled", got)
			}
			return err
		})
	}
	cancel(first)
	back(first)
	m.set(func() { m.ill = true })
	cancel(second)
	h.stop()
	h = open(t, b, database, nearby())
	back(second)
}
