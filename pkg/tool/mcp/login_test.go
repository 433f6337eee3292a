package mcp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
)

// portal is an MCP server and its authorization server, at which users log in. A token counts until the next one is issued.
type portal struct {
	*httptest.Server
	tokens    atomic.Int64
	challenge atomic.Pointer[string] // of the last authorization
	redirect  atomic.Pointer[string] // of the client that was registered
	scope     atomic.Pointer[string] // of the last authorization: the tool meta needs "write"
}

func openPortal(t *testing.T) *portal {
	t.Helper()
	p := &portal{}
	mux := http.NewServeMux()
	server := mcptest.Handler(mcptest.New(func() {}))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == fmt.Sprintf("Bearer token-%d", p.tokens.Load()) && p.tokens.Load() > 0 {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), `"name":"meta"`) && !strings.Contains(*p.scope.Load(), "write") {
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
				w.WriteHeader(http.StatusForbidden)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			server.ServeHTTP(w, r)
			return
		}
		refuse := func(context.Context, string, *http.Request) (*sdkauth.TokenInfo, error) {
			return nil, sdkauth.ErrInvalidToken
		}
		sdkauth.RequireBearerToken(refuse, &sdkauth.RequireBearerTokenOptions{
			ResourceMetadataURL: p.URL + "/.well-known/oauth-protected-resource/mcp",
		})(server).ServeHTTP(w, r)
	})
	reply := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, strings.ReplaceAll(body, "URL", p.URL))
		})
	}
	reply("/.well-known/oauth-protected-resource/mcp", `{"resource":"URL/mcp","authorization_servers":["URL"],"scopes_supported":["read"]}`)
	reply("/.well-known/oauth-authorization-server", `{"issuer":"URL","authorization_endpoint":"URL/authorize","token_endpoint":"URL/token",`+
		`"registration_endpoint":"URL/register","response_types_supported":["code"],"token_endpoint_auth_methods_supported":["none"],`+
		`"code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true}`)
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.redirect.Store(new(string(body)))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"client_id":"registered","token_endpoint_auth_method":"none","redirect_uris":["http://127.0.0.1/callback"]}`)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		p.challenge.Store(new(q.Get("code_challenge")))
		p.scope.Store(new(q.Get("scope")))
		back := q.Get("redirect_uri") + "?" + url.Values{"code": {"c0de"}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
		http.Redirect(w, r, back, http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		verified := r.FormValue("code") == "c0de" && base64.RawURLEncoding.EncodeToString(sum[:]) == *p.challenge.Load()
		refreshed := r.FormValue("refresh_token") == fmt.Sprintf("refresh-%d", p.tokens.Load())
		if r.FormValue("client_id") != "registered" || !verified && !refreshed {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		n := p.tokens.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","refresh_token":"refresh-%d","token_type":"Bearer","expires_in":3600}`, n, n)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		_ = p.Listener.Close() // first: a client could connect again
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// browse opens a page, as a user's browser does.
func browse(t *testing.T) func(string) error {
	return func(page string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "logged in") {
			return fmt.Errorf("got the page %q, %w", text, err)
		}
		return nil
	}
}

func TestAUserLogsIn(t *testing.T) {
	t.Parallel()
	p := openPortal(t)
	file := filepath.Join(t.TempDir(), "site.token")
	o := mcp.Options{Name: "site", URL: p.URL + "/mcp", OAuth: &mcp.OAuth{TokenFile: file}}
	r := run(t, o)
	if _, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err == nil {
		t.Error("a call before the login ran")
	}
	if err := mcp.Login(t.Context(), o, 0, browse(t)); err != nil {
		t.Fatal(err)
	}
	if registered := *p.redirect.Load(); !strings.Contains(registered, "http://127.0.0.1:") || !strings.Contains(registered, "refresh_token") {
		t.Errorf("registered %s", registered)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token file: got %v, %v, want mode 0600", info, err)
	}
	r = run(t, o)
	if result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err != nil || result.Content != "2" {
		t.Fatalf("after the login: got %q, %v", result.Content, err)
	}
	before := p.tokens.Load()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.tokens.Store(before + 1) // the server has revoked the access token; the refresh token of the file counts
	next := strings.ReplaceAll(string(text), fmt.Sprintf("refresh-%d", before), fmt.Sprintf("refresh-%d", before+1))
	if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err != nil || result.Content != "2" {
		t.Errorf("with a token that is refused: got %q, %v", result.Content, err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), fmt.Sprintf("token-%d", before+2)) {
		t.Errorf("the token file after the refresh has %s, %v", text, err)
	}
}

func TestALoginThatIsRefused(t *testing.T) {
	t.Parallel()
	p := openPortal(t)
	file := filepath.Join(t.TempDir(), "site.token")
	o := mcp.Options{Name: "site", URL: p.URL + "/mcp", OAuth: &mcp.OAuth{TokenFile: file}}
	err := mcp.Login(t.Context(), o, 0, func(page string) error {
		u, err := url.Parse(page)
		if err != nil {
			return err
		}
		response, err := http.Get(u.Query().Get("redirect_uri") + "?error=access_denied")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	if err == nil || !strings.Contains(err.Error(), "refused the login") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("tokens were stored")
	}
}

func TestALoginAsksForTheScopeThatACallLacked(t *testing.T) {
	t.Parallel()
	p := openPortal(t)
	o := mcp.Options{Name: "site", URL: p.URL + "/mcp", OAuth: &mcp.OAuth{TokenFile: filepath.Join(t.TempDir(), "site.token")}}
	if err := mcp.Login(t.Context(), o, 0, browse(t)); err != nil {
		t.Fatal(err)
	}
	r := run(t, o)
	_, err := r.call(t.Context(), "meta", `{}`, quiet)
	if err == nil || !strings.Contains(err.Error(), "agentbus mcp login site") {
		t.Fatalf("got %v from a call that lacks a scope, want how to log in", err)
	}
	if result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err != nil || result.Content != "2" {
		t.Errorf("a call that lacks none: got %q, %v", result.Content, err)
	}
	if err := mcp.Login(t.Context(), o, 0, browse(t)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(*p.scope.Load()); len(got) != 2 || !slices.Contains(got, "read") || !slices.Contains(got, "write") {
		t.Errorf("the second login asked for %q, want both scopes", got)
	}
	if _, err := r.call(t.Context(), "meta", `{}`, quiet); err != nil {
		t.Errorf("after the second login: %v", err)
	}
}
