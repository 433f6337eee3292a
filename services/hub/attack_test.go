package hub_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/service/servicetest"
	"github.com/go-json-experiment/json"
)

// reply is what an attack gets.
type reply struct {
	status int
	body   string
}

// send sends a request as it is.
func (h house) send(method, path, body string, headers ...string) reply {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request) // follows no redirect
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{response.StatusCode, string(text)}
}

// check wants an answer that is not an internal error of the hub, has the hub's form, and repeats nothing that is secret.
func (h house) check(what string, r reply, secrets ...string) {
	h.t.Helper()
	if r.status >= 500 {
		h.t.Errorf("%s: got %d %.300s", what, r.status, r.body)
	}
	for _, secret := range append(secrets, "Go ", "goroutine", "sqlite", "SELECT") {
		if strings.Contains(r.body, secret) {
			h.t.Errorf("%s: the answer holds %q: %.300s", what, secret, r.body)
		}
	}
	var refusal struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if r.status >= 400 && !strings.Contains(what, "/mcp, a body") &&
		(json.Unmarshal([]byte(r.body), &refusal) != nil || refusal.Code == "" || refusal.Message == "") {
		h.t.Errorf("%s: %d has the form %.300s", what, r.status, r.body)
	}
}

// ofAgents reports whether a route is for agents, which have keys of their own.
func ofAgents(path string) bool {
	return strings.HasSuffix(path, "/register") || strings.HasSuffix(path, "/heartbeat") || strings.Contains(path, "webhook")
}

// TestAttackEveryRoute walks what the hub serves, so that no new route is left out.
func TestAttackEveryRoute(t *testing.T) {
	t.Parallel()
	h, key := guarded(t)
	m := newMachine(t)
	body := `{"url":"` + m.URL + `","apiKey":"` + machineKey + `"}`
	if r := h.send(http.MethodPost, "/api/agents", body, "Authorization", "Bearer "+key); r.status != http.StatusCreated {
		t.Fatalf("got %+v", r)
	}
	stranger := h.otherTenant()
	if len(h.routes) < 15 {
		t.Fatalf("the hub serves only %v", h.routes)
	}
	for _, route := range h.routes {
		method, path, _ := strings.Cut(route, " ")
		h.attackKeys(method, path, key, stranger)
		id := "vm-1"
		if method == http.MethodDelete {
			id = "vm-none"
		}
		h.attackInputs(method, path, id, key)
	}
	if r := h.send(http.MethodGet, "/api/agents/vm-1", "", "Authorization", "Bearer "+key); r.status != http.StatusOK {
		t.Errorf("afterwards: got %+v", r)
	}
}

// otherTenant makes a key of another tenant.
func (h house) otherTenant() string {
	h.t.Helper()
	issuer, err := auth.NewIssuer([]byte("a pepper of more than 16 bytes"))
	if err != nil {
		h.t.Fatal(err)
	}
	key, record, err := issuer.New("globex", "mallory", nil, 0, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.putKey(h.t.Context(), bus.KeyRecord(record)); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, func() error {
		if r := h.send(http.MethodGet, "/api/agents", "", "Authorization", "Bearer "+key); r.status != http.StatusOK {
			return io.ErrNoProgress
		}
		return nil
	})
	return key
}

func at(path, id string) string {
	return strings.NewReplacer("{id}", id, "{taskId}", "task_none").Replace(path)
}

// attackKeys calls a route without the right key.
func (h house) attackKeys(method, path, key, stranger string) {
	h.t.Helper()
	for what, headers := range map[string][]string{
		"no key": nil, "a wrong key": {"Authorization", "Bearer ak_guess_0123456789abcdef"}, "another scheme": {"Authorization", "Basic " + key},
		"two keys": {"Authorization", "Bearer " + key, "Authorization", "Bearer " + key},
	} {
		r := h.send(method, at(path, "vm-1"), "{}", headers...)
		h.check(method+" "+path+", "+what, r, key, machineKey)
		if r.status != http.StatusUnauthorized && r.status != http.StatusTooManyRequests && (!ofAgents(path) || r.status < 400) {
			h.t.Errorf("%s %s with %s: got %d %.200s, want 401", method, path, what, r.status, r.body)
		}
	}
	if !strings.Contains(path, "{id}") || ofAgents(path) {
		return
	}
	r := h.send(method, at(path, "vm-1"), `{"task":"x","key":"0123456789abcdef"}`, "Authorization", "Bearer "+stranger)
	h.check(method+" "+path+", another tenant", r, machineKey)
	if r.status != http.StatusNotFound && r.status != http.StatusBadRequest {
		h.t.Errorf("%s %s by another tenant: got %d %.200s, want 404", method, path, r.status, r.body)
	}
}

// attackInputs calls a route with a good key and everything else wrong.
func (h house) attackInputs(method, path, id, key string) {
	h.t.Helper()
	bearer := []string{"Authorization", "Bearer " + key, "Content-Type", "application/json"}
	for _, attack := range []string{"a.b", "*", ">", "a\r\nb", "a\x00b", "../../etc", "$JS.API.>", strings.Repeat("a", 5000), "é", "\xff"} {
		for _, param := range []string{"{id}", "{taskId}"} {
			if strings.Contains(path, param) {
				to := at(strings.Replace(path, param, url.PathEscape(attack), 1), id)
				h.check(method+" "+path+", an id", h.send(method, to, "{}", bearer...))
			}
		}
	}
	for _, body := range []string{
		"", "[]", "null", `"x"`, "{", `{"id":{}}`, `{"url":"file:///etc/passwd","apiKey":"x"}`, `{"id":"a","id":"b"}`, "\xff\xfe",
		strings.Repeat("[", 20_000), `{"task":"` + strings.Repeat("x", 3<<20) + `"}`,
	} {
		if method == http.MethodPost {
			h.check(method+" "+path+", a body", h.send(method, at(path, id), body, bearer...))
		}
	}
	for _, query := range []string{"limit=-1", "limit=99999999999999999999", "cursor=%ff%fe", "status=%00", "a=%zz"} {
		if method == http.MethodGet && path != "/mcp" { // which is a stream
			h.check(method+" "+path+", a query", h.send(method, at(path, id)+"?"+query, "", bearer...))
		}
	}
}

func TestAttackFraming(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t)
	for _, path := range []string{"/api/agents", "/mcp"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			servicetest.Framing(t, strings.TrimPrefix(h.url, "http://"), path)
		})
	}
}
