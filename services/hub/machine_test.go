package hub_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// machine plays an agent server that does what the test says, and notes what it was asked.
type machine struct {
	*httptest.Server

	mu       sync.Mutex
	key      string
	ill      bool   // every call is cut
	frozen   bool   // no call is answered
	slow     bool   // tasks are taken, and the answer never comes
	deaf     bool   // tasks are not taken, and no answer comes
	before   func() // called before a task that was taken is answered; nil = nothing
	tasks    map[string]*played
	byKey    map[string]string
	changed  chan struct{} // closed and replaced at every change
	assigned []remoteagent.Assignment
}

// played is a task on a machine.
type played struct {
	remoteagent.Task
	events []remoteagent.Event
}

const machineKey = "machine-key"

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{key: machineKey, tasks: map[string]*played{}, byKey: map[string]string{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /agent/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, remoteagent.Health{Healthy: true})
	})
	mux.HandleFunc("GET /agent/info", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, remoteagent.Info{AgentID: "vm-1", Name: "VM 1", Capabilities: []string{"code"}, Status: remoteagent.Idle})
	})
	mux.HandleFunc("POST /tasks", m.create)
	mux.HandleFunc("GET /tasks", m.list)
	mux.HandleFunc("GET /tasks/{id}", func(w http.ResponseWriter, r *http.Request) { m.show(w, r.PathValue("id")) })
	mux.HandleFunc("GET /tasks/{id}/stream", m.stream)
	mux.HandleFunc("POST /tasks/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		m.end(r.PathValue("id"), remoteagent.Cancelled, "")
		answer(w, http.StatusOK, remoteagent.NewCancellation(r.PathValue("id")))
	})
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		ill, frozen, key := m.ill, m.frozen, m.key
		m.mu.Unlock()
		if frozen {
			<-r.Context().Done()
			return
		}
		if ill {
			panic(http.ErrAbortHandler)
		}
		if r.Header.Get("Authorization") != "Bearer "+key {
			answer(w, http.StatusForbidden, remoteagent.Refuse(http.StatusForbidden, "auth_failed", "wrong key"))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = m.Listener.Close() // first: a client could connect again
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

func answer(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func (m *machine) create(w http.ResponseWriter, r *http.Request) {
	var a remoteagent.Assignment
	if err := json.UnmarshalRead(r.Body, &a); err != nil {
		panic(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deaf {
		panic(http.ErrAbortHandler)
	}
	m.assigned = append(m.assigned, a)
	id := fmt.Sprintf("task_%d", len(m.tasks)+1)
	m.tasks[id] = &played{Task: remoteagent.Task{TaskID: id, SessionID: "s1", Status: remoteagent.Running, CreatedAt: time.Now()}}
	m.byKey[r.Header.Get(remoteagent.IdempotencyKey)] = id
	if m.slow {
		panic(http.ErrAbortHandler)
	}
	if m.before != nil {
		m.before()
	}
	answer(w, http.StatusCreated, m.tasks[id].Task)
}

func (m *machine) list(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.slow { // not even that is answered, once
		m.slow = false
		panic(http.ErrAbortHandler)
	}
	list := remoteagent.TaskList{Tasks: []remoteagent.Task{}}
	if id := m.byKey[r.URL.Query().Get("idempotencyKey")]; id != "" {
		list.Tasks = append(list.Tasks, m.tasks[id].Task)
	}
	answer(w, http.StatusOK, list)
}

func (m *machine) show(w http.ResponseWriter, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks[id] == nil {
		answer(w, http.StatusNotFound, remoteagent.Refuse(http.StatusNotFound, remoteagent.TaskNotFound, "no such task"))
		return
	}
	answer(w, http.StatusOK, m.tasks[id].Task)
}

func (m *machine) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	after, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	for {
		m.mu.Lock()
		events, changed := m.tasks[r.PathValue("id")].events, m.changed
		m.mu.Unlock()
		for _, e := range events {
			if e.ID <= after {
				continue
			}
			after = e.ID
			frame, err := e.Append(nil)
			if err != nil {
				panic(err)
			}
			_, _ = w.Write(frame)
			if remoteagent.IsTerminal(e.Body) {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// say adds to what a task has done.
func (m *machine) say(id string, bodies ...remoteagent.Body) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.tasks[id]
	for _, b := range bodies {
		p.events = append(p.events, remoteagent.Event{ID: uint64(len(p.events) + 1), Body: b})
		if now, ok := b.(remoteagent.Progress); ok {
			p.TurnsCompleted, p.CostUSD = now.TurnsCompleted, now.CostUSD
		}
	}
	m.wake()
}

func (m *machine) end(id string, status remoteagent.Status, result string) {
	m.mu.Lock()
	p := m.tasks[id]
	p.Status, p.Result, p.CompletedAt = status, result, time.Now()
	end := remoteagent.Result{Status: status, Result: result, CostUSD: p.CostUSD, TurnsCompleted: p.TurnsCompleted, SessionID: "s1"}
	m.mu.Unlock()
	m.say(id, end)
}

func (m *machine) set(change func()) {
	m.mu.Lock()
	change()
	m.wake()
	m.mu.Unlock()
	m.CloseClientConnections()
}

func (m *machine) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// prompts are the tasks that the machine was given, one a line.
func (m *machine) prompts() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, a := range m.assigned {
		all = append(all, a.Prompt)
	}
	return strings.Join(all, "\n")
}
