package service_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/service"
)

func TestAskReady(t *testing.T) {
	t.Parallel()
	answer := func(status int, text string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				status = http.StatusTeapot
			}
			http.Error(w, text, status)
		}))
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	ready := answer(http.StatusOK, "ok")
	_, port, err := net.SplitHostPort(ready)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		addr, want string // want "" = ready
	}{
		"ready":                       {ready, ""},
		"listens on all addresses":    {":" + port, ""},
		"listens on all IPv4":         {"0.0.0.0:" + port, ""},
		"waits":                       {answer(http.StatusServiceUnavailable, "starting\nwaiting for nats"), "not ready: 503 Service Unavailable: starting\nwaiting for nats"},
		"no process":                  {"127.0.0.1:1", "ask whether the service is ready"},
		"an address without its port": {"127.0.0.1", "write host:port"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := service.AskReady(t.Context(), test.addr)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
