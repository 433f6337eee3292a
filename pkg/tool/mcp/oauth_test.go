package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
)

// guarded is an MCP server with its authorization server, whose tokens expire at once.
type guarded struct {
	*httptest.Server
	tokens atomic.Int64 // that were issued
	denied atomic.Int64 // requests without a valid one
}

func guard(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{}
	mux := http.NewServeMux()
	server := mcptest.Handler(mcptest.New(func() {}))
	verify := func(context.Context, string, *http.Request) (*sdkauth.TokenInfo, error) {
		return nil, sdkauth.ErrInvalidToken // only for the header of the refusal
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-%d", g.tokens.Load()) || g.tokens.Load() == 0 {
			g.denied.Add(1)
			sdkauth.RequireBearerToken(verify, &sdkauth.RequireBearerTokenOptions{
				ResourceMetadataURL: g.URL + "/.well-known/oauth-protected-resource/mcp",
			})(server).ServeHTTP(w, r)
			return
		}
		server.ServeHTTP(w, r)
	})
	reply := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, strings.ReplaceAll(body, "URL", g.URL))
		})
	}
	reply("/.well-known/oauth-protected-resource/mcp", `{"resource":"URL/mcp","authorization_servers":["URL"]}`)
	reply("/.well-known/oauth-authorization-server", `{"issuer":"URL","authorization_endpoint":"URL/authorize","token_endpoint":"URL/token",`+
		`"response_types_supported":["code"],"token_endpoint_auth_methods_supported":["client_secret_basic"],"code_challenge_methods_supported":["S256"]}`)
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "runner" || secret != "s3cret" || r.FormValue("grant_type") != "client_credentials" {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":1}`, g.tokens.Add(1))
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		_ = g.Listener.Close() // first: a client could connect again
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func TestAServerGetsTokensOfTheClient(t *testing.T) {
	t.Parallel()
	g := guard(t)
	r := run(t, mcp.Options{Name: "site", URL: g.URL + "/mcp", OAuth: &mcp.OAuth{ClientID: "runner", ClientSecret: "s3cret", Issuer: g.URL}})
	for range 3 {
		if result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err != nil || result.Content != "2" {
			t.Errorf("got %q, %v", result.Content, err)
		}
	}
	if g.tokens.Load() < 2 {
		t.Errorf("got %d tokens, want a new one when the first has expired", g.tokens.Load())
	}
}

func TestASecretGoesToItsIssuerAlone(t *testing.T) {
	t.Parallel()
	g := guard(t)
	o := mcp.Options{Name: "site", URL: g.URL + "/mcp", OAuth: &mcp.OAuth{ClientID: "runner", ClientSecret: "s3cret", Issuer: "https://login.example.com"}}
	r := run(t, o)
	if _, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err == nil {
		t.Error("the call ran")
	}
	if g.tokens.Load() != 0 {
		t.Errorf("another authorization server got the secret, and gave %d tokens", g.tokens.Load())
	}
}
