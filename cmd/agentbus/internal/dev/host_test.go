package dev

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestOnlyPrivateNamesReachAStackWithoutKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.1": true, "[::1]:8080": true, "[::1]": true, "localhost:8080": true,
		"LOCALHOST": true, "localhost.": true, "app.localhost:8080": true, "gateway": true, "host.docker.internal:8080": true, "": true,
		"evil.example": false, "evil.example:8080": false, "evil.example.:8080": false, "localhost.evil.example": false,
		"127.0.0.1.nip.io:8080": false, "xlocalhost.example": false, "a.notlocalhost": false, "internal.example": false,
	}
	h := checkHost(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for host, want := range tests {
		r := httptest.NewRequest(http.MethodGet, "/v1/threads", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Code == http.StatusNoContent; got != want {
			t.Errorf("%q: got %d, let in %v", host, w.Code, want)
		}
		if want {
			continue
		}
		e, err := event.Decode(w.Body.Bytes())
		if f, ok := e.Body.(event.Error); err != nil || w.Code != http.StatusForbidden || !ok || f.Code != apierr.AuthFailed || !strings.Contains(f.Message, "--auth") {
			t.Errorf("%q: got %d %s", host, w.Code, w.Body)
		}
	}
}
