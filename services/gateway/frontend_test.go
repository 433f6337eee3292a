package gateway_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway"
)

// withPage serves a page with another file, and a file outside its folder.
func withPage(t *testing.T) func(*gateway.Deps) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html": "<!doctype html><title>here</title><script>go()</script>", "secret.txt": "secret", "static/a.css": "p{}",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "static", "link")); err != nil {
		t.Fatal(err)
	}
	return func(d *gateway.Deps) { d.Config.Gateway.Sessions.UI = dir }
}

func TestThePageIsServedUnderTheAddressOfEverySession(t *testing.T) { // K1
	t.Parallel()
	b := start(t, withPage(t), withKeys)
	for _, test := range []struct {
		path   string
		status int
		kind   string
	}{
		{"/", http.StatusOK, "text/html; charset=utf-8"},
		{"/ses_1", http.StatusOK, "text/html; charset=utf-8"},
		{"/static/a.css", http.StatusOK, "text/css; charset=utf-8"},
		{"/static/", http.StatusNotFound, "application/json"},
		{"/static/link", http.StatusNotFound, "application/json"},
		{"/static/../secret.txt", http.StatusNotFound, "application/json"},
		{"/static/%2e%2e/secret.txt", http.StatusNotFound, "application/json"},
		{"/secret.txt", http.StatusNotFound, "application/json"},
		{"/a/b", http.StatusNotFound, "application/json"},
		{"/v1/nothing", http.StatusNotFound, "application/json"},
		{"/healthz", http.StatusOK, "text/plain; charset=utf-8"},
	} {
		a := b.get(test.path)
		if kind := a.header.Get("Content-Type"); a.status != test.status || kind != test.kind || strings.Contains(a.body, "root:") {
			t.Errorf("%s: got %d %s %s, want %d %s", test.path, a.status, kind, a.body, test.status, test.kind)
		}
	}
}

func TestThePageRunsItsOwnScriptsAndNoOthers(t *testing.T) {
	t.Parallel()
	b := start(t, withPage(t))
	page := b.get("/")
	// The hash is that of "go()".
	policy := page.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, " 'sha256-5KYv+PUboo5h+0+YAtGRPbwv5d/QxzHslP4YGnUaxRw=';") || !strings.Contains(policy, "connect-src 'self'") {
		t.Errorf("got the policy %q", policy)
	}
	again := b.do(b.request(http.MethodGet, "/", "", "If-None-Match", page.header.Get("ETag")))
	if again.status != http.StatusNotModified {
		t.Errorf("a page that has not changed: got %d", again.status)
	}
	if policy := b.get("/api/v1/health").header.Get("Content-Security-Policy"); strings.Contains(policy, "script") {
		t.Errorf("a route that is not a page has the policy %q", policy)
	}
}

func TestWithoutAPageThereIsNone(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, path := range []string{"/", "/ses_1"} {
		if a := b.get(path); a.status != http.StatusNotFound {
			t.Errorf("%s: got %d", path, a.status)
		}
	}
}

func TestAPageMustBeOne(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain.html")
	if err := os.WriteFile(plain, []byte("<p>words</p>"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{plain, filepath.Join(t.TempDir(), "none.html"), t.TempDir()} {
		_, err := gateway.New(gateway.Deps{Config: config.Config{Gateway: config.Gateway{Sessions: config.Sessions{UI: name}}}})
		if err == nil || !strings.Contains(err.Error(), "gateway.sessions.ui") {
			t.Errorf("%s: got %v, want an error that names gateway.sessions.ui", name, err)
		}
	}
}
