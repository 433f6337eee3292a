package mcp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// OAuth is a client of the authorization server of an MCP server. Without TokenFile, its tokens are those of the client itself
// (client credentials): no user logs in.
type OAuth struct {
	TokenFile    string // where [Login] has stored the tokens of a user
	ClientID     string
	ClientSecret string
	Issuer       string // the authorization server that gets the secret; "" = the one that the MCP server names
}

// oauthTime bounds a request to an authorization server.
const oauthTime = 30 * time.Second

// authorizer gets tokens when a server refuses a request without one, and new ones before they expire. It is safe for
// concurrent use, which the handler of the SDK is not.
type authorizer struct {
	mu      sync.Mutex
	handler *extauth.ClientCredentialsHandler
}

var _ auth.OAuthHandler = (*authorizer)(nil)

func (o Options) oauthHandler() (auth.OAuthHandler, error) {
	if o.OAuth.TokenFile != "" {
		return o.userTokens()
	}
	return o.authorizer()
}

// authorizer returns the authorizer of a server. Its requests have none of the headers that are meant for the server.
func (o Options) authorizer() (*authorizer, error) {
	allow, err := o.allowed()
	if err != nil {
		return nil, err
	}
	handler, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: &oauthex.ClientCredentials{
			ClientID: o.OAuth.ClientID, Issuer: o.OAuth.Issuer, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: o.OAuth.ClientSecret},
		},
		HTTPClient: oauthClient(allow),
	})
	return &authorizer{handler: handler}, err
}

func oauthClient(allow egress.AllowList) *http.Client {
	return egress.NewClient(egress.Options{PlainHTTP: true, Allow: allow, Timeout: oauthTime, MaxBody: maxBody})
}

// TokenSource implements [auth.OAuthHandler].
func (a *authorizer) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.handler.TokenSource(ctx)
}

// Authorize implements [auth.OAuthHandler]. Later tokens are fetched by the same context, so it must outlive the request.
func (a *authorizer) Authorize(ctx context.Context, request *http.Request, response *http.Response) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.handler.Authorize(context.WithoutCancel(ctx), request, response)
}
