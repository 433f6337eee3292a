package catalog

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/config"
)

// Clients read the message of an error. Its cause, for logs, has the address.
func TestErrorsHideTheAddressOfTheServer(t *testing.T) {
	t.Parallel()
	answers := map[string]http.HandlerFunc{
		"a refused key": answer(http.StatusUnauthorized, "application/json", `{"error":{"message":"not for %s"}}`),
		"a wrong path":  answer(http.StatusNotFound, "application/json", `{"error":{"message":"there is no %s/v1/turns here"}}`),
		"a bad request": answer(http.StatusBadRequest, "application/json", `{"error":{"message":"cannot parse (\"%s\")"}}`),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
		},
		"a page":         answer(http.StatusOK, "text/html", `<html>%s</html>`),
		"no stream":      answer(http.StatusOK, "application/json", `{"at":"%s"}`),
		"a broken event": answer(http.StatusOK, "text/event-stream", "event: message_start\ndata: {\"type\" %s\n\n"),
		"a broken line":  answer(http.StatusOK, "application/x-ndjson", "{\"type\" %s\n"),
		"a cut answer":   answer(http.StatusOK, "text/event-stream", ""),
		"no connection":  nil,
	}
	agents := map[string]func(url string) config.Agent{
		config.BackendOpenAI:    func(url string) config.Agent { return config.Agent{BaseURL: url} },
		config.BackendResponses: func(url string) config.Agent { return config.Agent{BaseURL: url} },
		config.BackendAnthropic: func(url string) config.Agent { return config.Agent{BaseURL: url} },
		config.BackendHTTP:      func(url string) config.Agent { return config.Agent{URL: url} },
		config.BackendAGUI:      func(url string) config.Agent { return config.Agent{URL: url} },
	}
	for name, agent := range agents {
		for what, handler := range answers {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(handler)
				t.Cleanup(server.Close)
				if handler == nil {
					server.Close()
				}
				a := agent(server.URL + "/private?code=hidden")
				a.Backend, a.Model = name, "m"
				hides(t, a, server.Listener.Addr().String())
			})
		}
	}
}

// answer returns a handler whose body has the server's address.
func answer(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(status)
		if strings.Contains(body, "%s") {
			body := fmt.Sprintf(body, "http://"+r.Host)
			_, _ = io.WriteString(w, body)
		}
	}
}

func hides(t *testing.T, a config.Agent, address string) {
	t.Helper()
	b, err := Open(a, nothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := backendtest.Send(t.Context(), b, backend.State{}, backend.Turn{
		AgentID: "support", Model: a.Model,
		Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "hi"}}}},
	})
	if sent.Err == nil {
		t.Fatalf("got %+v, want an error", sent)
	}
	message := apierr.From(sent.Err).Message
	if host, _, _ := strings.Cut(address, ":"); strings.Contains(message, host) || strings.Contains(message, "private") {
		t.Errorf("clients get %q, which has the address", message)
	}
	if a.URL != "" && !strings.Contains(message, "agent support") {
		t.Errorf("clients get %q, want the name of the agent", message)
	}
	if text := sent.Err.Error(); !strings.Contains(text, address) || strings.Contains(text, "hidden") {
		t.Errorf("logs get %q, want the address %s without its query", text, address)
	}
}
