package agentserver_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// attacked wants an answer that is not an internal error of the server, has its form, and repeats no key.
func (s *server) attacked(what string, status int, answer string) {
	s.t.Helper()
	var refusal struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if status >= 500 || status >= 400 && (json.Unmarshal([]byte(answer), &refusal) != nil || refusal.Code == "" || refusal.Message == "") {
		s.t.Errorf("%s: got %d %.300s", what, status, answer)
	}
	for _, secret := range []string{key, "Go ", "goroutine", "SELECT"} {
		if strings.Contains(answer, secret) {
			s.t.Errorf("%s: the answer holds %q: %.300s", what, secret, answer)
		}
	}
}

// TestAttackEveryRoute walks what the server serves, so that no new route is left out.
func TestAttackEveryRoute(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	if len(s.routes) < 8 {
		t.Fatalf("the server serves only %v", s.routes)
	}
	for _, route := range s.routes {
		method, path, _ := strings.Cut(route, " ")
		to := strings.Replace(path, "{id}", "task_none", 1)
		for what, header := range map[string][]string{
			"no key": {""}, "a wrong key": {"Bearer wrong-wrong-wrong"}, "another scheme": {"Basic " + key}, "two keys": {"Bearer " + key, "Bearer " + key},
		} {
			status, answer, _ := s.raw(method, to, "{}", http.Header{"Authorization": header})
			s.attacked(route+", "+what, status, answer)
			if status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusTooManyRequests {
				t.Errorf("%s with %s: got %d %.200s", route, what, status, answer)
			}
		}
		s.attackInputs(method, path, to)
	}
	if status, answer, _ := s.raw(http.MethodGet, "/agent/health", "", nil); status != http.StatusOK {
		t.Errorf("afterwards: got %d %s", status, answer)
	}
}

// attackInputs calls a route with a good key and everything else wrong.
func (s *server) attackInputs(method, path, to string) {
	s.t.Helper()
	for _, attack := range []string{"a.b", "*", "a\r\nb", "a\x00b", "../../etc", "' OR 1=1--", strings.Repeat("a", 5000), "é", "\xff"} {
		if !strings.Contains(path, "{id}") {
			break
		}
		status, answer, _ := s.raw(method, strings.Replace(path, "{id}", url.PathEscape(attack), 1), "{}", nil)
		s.attacked(method+" "+path+", an id", status, answer)
		if status != http.StatusNotFound {
			s.t.Errorf("%s %s with the id %.40q: got %d, want 404", method, path, attack, status)
		}
	}
	for _, body := range []string{
		"", "[]", "null", `"x"`, "{", `{"prompt":{}}`, `{"prompt":"x","cwd":"../.."}`, `{"prompt":"x","prompt":"y"}`, "\xff\xfe",
		strings.Repeat("[", 20_000), `{"prompt":"` + strings.Repeat("x", 2<<20) + `"}`, `{"prompt":"x","maxTurns":-1}`,
	} {
		if method == http.MethodPost {
			status, answer, _ := s.raw(method, to, body, http.Header{"Content-Type": {"application/json"}})
			s.attacked(method+" "+path+", a body", status, answer)
		}
	}
	for _, query := range []string{"limit=-1", "limit=99999999999999999999", "status=%ff", "after=-1", "after=%ff", "sessionId=%00", "a=%zz"} {
		if method == http.MethodGet {
			status, answer, _ := s.raw(method, to+"?"+query, "", nil)
			s.attacked(method+" "+path+", a query", status, answer)
		}
	}
}
