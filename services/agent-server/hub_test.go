package agentserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// hub is the side of a hub that agents speak to.
type hub struct {
	url string

	mu       sync.Mutex
	gone     bool
	calls    map[string]int // by path
	told     []remoteagent.Completion
	stopping bool // as the newest heartbeat says
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{calls: map[string]int{}}
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	h.url = web.URL
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone || err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+key {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	h.calls[r.URL.Path]++
	switch r.URL.Path {
	case remoteagent.PathRegister:
		var in remoteagent.Registration
		if json.Unmarshal(body, &in) != nil || in.Token != "one-time" || in.Key != key || in.URL == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"id":"agent-of-the-hub"}`))
	case remoteagent.PathWebhook:
		var c remoteagent.Completion
		if json.Unmarshal(body, &c) == nil {
			h.told = append(h.told, c)
		}
	default:
		var beat remoteagent.Heartbeat
		if json.Unmarshal(body, &beat) == nil {
			h.stopping = beat.Stopping
		}
	}
}

func (h *hub) away(gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = gone
}

func (h *hub) count(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[path]
}

func (h *hub) completions() []remoteagent.Completion {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]remoteagent.Completion{}, h.told...)
}

func (h *hub) goodbye() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopping
}
