package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// hook is a receiver of notifications about tasks.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	broken   bool
	attempts map[string]int    // by task
	states   map[string]string // of the tasks whose notification it has accepted
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{broken: true, attempts: map[string]int{}, states: map[string]string{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var got struct {
			Task struct {
				ID     string `json:"id"`
				Status struct {
					State string `json:"state"`
				} `json:"status"`
			} `json:"task"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Errorf("got %s: %v", body, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.attempts[got.Task.ID]++
		if h.broken {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		h.states[got.Task.ID] = got.Task.Status.State
	}))
	t.Cleanup(h.Close)
	return h
}

// notifies starts a task that notifies the receiver, and returns its id.
func (l lab) notifies(t *testing.T, h *hook, text string) (taskID string) {
	t.Helper()
	body := fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":%q}]},"configuration":{"returnImmediately":true,`+
		`"taskPushNotificationConfig":{"url":%q}}}`, t.Name()+text, text, h.URL)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.Gateways[0]+"/a2a/demo/message:send", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("got %d %s", response.StatusCode, text)
	}
	return response.Header.Get("X-Request-Id")
}

// TestNotificationsOfKilledGateways kills all gateways while a receiver refuses what they send. Tasks have ended before, and end
// while no gateway runs. After both have recovered, the receiver gets the end of every task.
func TestNotificationsOfKilledGateways(t *testing.T) {
	h := newHook(t)
	l := newLab(t, setup{counts: map[string]int{"gateway": 2}, receiver: strings.TrimPrefix(h.URL, "http://")})
	var ended, running []string
	for i := range 6 {
		ended = append(ended, l.notifies(t, h, fmt.Sprintf("/say %d", i)))
	}
	eventually(t, time.Minute, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, taskID := range ended {
			if h.attempts[taskID] == 0 {
				return fmt.Errorf("no attempt for task %s of %v", taskID, h.attempts)
			}
		}
		return nil
	})
	for i := range 4 {
		running = append(running, l.notifies(t, h, fmt.Sprintf("/stream %d 200", 400+i))) // about two seconds
	}
	gateways := l.Processes("gateway")
	for _, g := range gateways {
		g.Kill()
	}
	h.mu.Lock()
	h.broken = false
	h.mu.Unlock()
	start(t, gateways[1])
	eventually(t, 2*time.Minute, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, taskID := range append(ended, running...) {
			if h.states[taskID] != "TASK_STATE_COMPLETED" {
				return fmt.Errorf("task %s is in state %q at its receiver; attempts: %v", taskID, h.states[taskID], h.attempts)
			}
		}
		return nil
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Logf("attempts by task: %v", h.attempts)
}
