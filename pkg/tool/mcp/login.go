package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

const (
	loginTime    = 10 * time.Minute // for the user to log in
	maxTokenFile = 64 << 10
	callbackPath = "/callback"
)

// stored is the content of a token file.
type stored struct {
	ClientID     string           `json:"clientId"`
	ClientSecret string           `json:"clientSecret,omitempty"`
	TokenURL     string           `json:"tokenUrl"`
	AuthStyle    oauth2.AuthStyle `json:"authStyle"`
	Scopes       []string         `json:"scopes,omitempty"`
	AccessToken  string           `json:"accessToken"`
	TokenType    string           `json:"tokenType,omitempty"`
	RefreshToken string           `json:"refreshToken,omitempty"`
	Expiry       time.Time        `json:"expiry,omitzero"`

	WantedScopes []string `json:"wantedScopes,omitempty"` // that a call lacked: the next login asks for them
}

// Login has a user log in at the authorization server of a server, and stores the tokens in the token file of the options.
// show shows the user the page of the authorization server, which sends the browser back to port of this machine; 0 = any. A
// client without an id is registered. An id that is an https address is that of a client metadata document. Login asks for the
// scopes that calls lacked since the last one.
func Login(ctx context.Context, o Options, port int, show func(page string) error) error {
	if o.URL == "" || o.OAuth == nil || o.OAuth.TokenFile == "" {
		return fmt.Errorf("MCP server %s: a user can log in only at a url, with oauth.tokenFile", o.Name)
	}
	allow, err := o.allowed()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("listen for the redirect of the login: %w", err)
	}
	back := newCallback(listener)
	defer back.close() //nolint:contextcheck // ctx may be done, and the server must stop all the same
	saved := false
	settings := &auth.AuthorizationCodeHandlerConfig{
		ScopeFilter: o.OAuth.scopes, RedirectURL: "http://" + listener.Addr().String() + callbackPath,
		RequestRefreshToken: true, AcceptUnadvertisedIss: true, Client: oauthClient(allow),
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if err := show(args.URL); err != nil {
				return nil, err
			}
			return back.wait(ctx)
		},
		NewTokenSource: func(ctx context.Context, client *oauth2.Config, token *oauth2.Token) (oauth2.TokenSource, error) {
			saved = true
			return client.TokenSource(ctx, token), save(o.OAuth.TokenFile, client, token, nil)
		},
	}
	document := strings.HasPrefix(o.OAuth.ClientID, "https://") && o.OAuth.ClientSecret == ""
	if document {
		settings.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: o.OAuth.ClientID}
	}
	if o.OAuth.ClientID != "" && !document {
		settings.PreregisteredClient = &oauthex.ClientCredentials{ClientID: o.OAuth.ClientID, Issuer: o.OAuth.Issuer}
		if o.OAuth.ClientSecret != "" {
			settings.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: o.OAuth.ClientSecret}
		}
	} else {
		settings.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "agentbus", RedirectURIs: []string{settings.RedirectURL}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}}
	}
	handler, err := auth.NewAuthorizationCodeHandler(settings)
	if err != nil {
		return fmt.Errorf("MCP server %s: %w", o.Name, err)
	}
	if err := o.probe(ctx, handler); err != nil {
		return fmt.Errorf("log in at MCP server %s: %w", o.Name, err)
	}
	if !saved {
		return fmt.Errorf("MCP server %s has not asked for a login; remove oauth from its configuration", o.Name)
	}
	return nil
}

// scopes returns the scopes to ask for: those that the server names, and those that calls lacked.
func (o *OAuth) scopes(named []string) []string {
	before, err := load(o.TokenFile)
	if err != nil || len(before.WantedScopes) == 0 {
		return named // the first login
	}
	all := slices.Concat(named, before.Scopes, before.WantedScopes)
	slices.Sort(all)
	return slices.Compact(all)
}

// probe connects once, which makes the server ask for a login.
func (o Options) probe(ctx context.Context, handler auth.OAuthHandler) error {
	client, err := o.client(func() {}, func(body io.ReadCloser) io.ReadCloser { return body })
	if err != nil {
		return err
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "agentbus", Version: cmp.Or(o.Version, "dev")}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
	}).Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: o.URL, HTTPClient: client, OAuthHandler: handler, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return err
	}
	_ = session.Close() // the login is done
	return nil
}

// callback receives the redirect of a login.
type callback struct {
	server  *http.Server
	results chan *auth.AuthorizationResult
	serving sync.WaitGroup
}

func newCallback(listener net.Listener) *callback {
	c := &callback{results: make(chan *auth.AuthorizationResult, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, c.receive)
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: oauthTime}
	c.serving.Go(func() { _ = c.server.Serve(listener) }) // ends with close
	return c
}

// receive passes the first redirect on: its state is checked by the handler of the SDK.
func (c *callback) receive(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	result := &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}
	text := "You are logged in. You can close this page.\n"
	if result.Code == "" {
		w.WriteHeader(http.StatusBadRequest)
		text = "The login was not completed. Start it again.\n"
	}
	select {
	case c.results <- result:
	default: // a second redirect
	}
	_, _ = io.WriteString(w, text) // a browser that is gone changes nothing
}

func (c *callback) wait(ctx context.Context) (*auth.AuthorizationResult, error) {
	select {
	case result := <-c.results:
		if result.Code == "" {
			return nil, errors.New("the authorization server has refused the login")
		}
		return result, nil
	case <-ctx.Done():
		return nil, errors.New("no user has logged in before the time limit")
	}
}

func (c *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = c.server.Shutdown(ctx) // a browser that does not read is left alone
	c.serving.Wait()
}

// save replaces a token file. Only its owner can read it.
func save(file string, client *oauth2.Config, token *oauth2.Token, wanted []string) error {
	return store(file, stored{
		ClientID: client.ClientID, ClientSecret: client.ClientSecret, TokenURL: client.Endpoint.TokenURL, AuthStyle: client.Endpoint.AuthStyle,
		Scopes: client.Scopes, AccessToken: token.AccessToken, TokenType: token.TokenType, RefreshToken: token.RefreshToken, Expiry: token.Expiry,
		WantedScopes: wanted,
	})
}

func store(file string, s stored) error {
	data, err := jsonv2.Marshal(s)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+"-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("store the tokens: %w", err)
	}
	_, err = next.Write(data)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("store the tokens: %w", errors.Join(err, os.Remove(next.Name())))
	}
	return nil
}

// userTokens gives the tokens of a user who has logged in. It is safe for concurrent use.
type userTokens struct {
	options Options
	client  *http.Client

	mu      sync.Mutex
	config  *oauth2.Config // of the current token; nil = the file was not read
	token   *oauth2.Token
	refused string   // access token that the server has refused
	wanted  []string // scopes that a call lacked: a later login has other tokens
}

var _ auth.OAuthHandler = (*userTokens)(nil)

func (o Options) userTokens() (*userTokens, error) {
	allow, err := o.allowed()
	return &userTokens{options: o, client: oauthClient(allow)}, err
}

// TokenSource implements [auth.OAuthHandler].
func (u *userTokens) TokenSource(context.Context) (oauth2.TokenSource, error) { return u, nil }

// Token implements [oauth2.TokenSource]. A token that has expired is refreshed and stored, unless another process has done that.
func (u *userTokens) Token() (*oauth2.Token, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.usable() && len(u.wanted) == 0 {
		return u.token, nil
	}
	if err := u.read(); err != nil {
		return nil, err
	}
	if u.usable() {
		return u.token, nil
	}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), oauth2.HTTPClient, u.client), oauthTime)
	defer cancel()
	expired := *u.token
	expired.Expiry = time.Now().Add(-time.Hour) // the server decides, not the clock
	token, err := u.config.TokenSource(ctx, &expired).Token()
	if err == nil {
		u.token = token
		return token, save(u.options.OAuth.TokenFile, u.config, token, u.wanted)
	}
	if again := u.read(); again == nil && u.usable() {
		return u.token, nil // another process was first, and the refresh token counts once
	}
	return nil, u.loginAgain(err)
}

func (u *userTokens) usable() bool { return u.token.Valid() && u.token.AccessToken != u.refused }

// Authorize implements [auth.OAuthHandler]: the server has refused the token, which is then refreshed. If the token lacks a scope,
// the next login asks for that.
func (u *userTokens) Authorize(_ context.Context, request *http.Request, response *http.Response) error {
	_ = response.Body.Close() // the status is all
	if response.StatusCode == http.StatusForbidden {
		return u.loginAgain(errors.Join(errors.New(response.Status), u.want(response.Header)))
	}
	u.mu.Lock()
	u.refused = strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	u.mu.Unlock()
	_, err := u.Token() //nolint:contextcheck // the interface of oauth2 has no context
	return err
}

// want stores the scopes that a call lacked for the next login.
func (u *userTokens) want(header http.Header) error {
	challenges, err := oauthex.ParseWWWAuthenticate(header.Values("WWW-Authenticate"))
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range challenges {
		if c.Scheme != "bearer" || c.Params["error"] != "insufficient_scope" {
			continue
		}
		s, err := load(u.options.OAuth.TokenFile)
		if err != nil {
			return err
		}
		u.wanted = strings.Fields(c.Params["scope"])
		if slices.Equal(s.WantedScopes, u.wanted) {
			return nil
		}
		s.WantedScopes = u.wanted
		return store(u.options.OAuth.TokenFile, s)
	}
	return nil
}

func load(name string) (s stored, err error) {
	file, err := os.Open(name)
	if err != nil {
		return s, err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxTokenFile))
	if err != nil {
		return s, err
	}
	return s, jsonv2.Unmarshal(data, &s)
}

func (u *userTokens) read() error {
	s, err := load(u.options.OAuth.TokenFile)
	if err != nil {
		return u.loginAgain(err)
	}
	u.wanted = s.WantedScopes
	u.config = &oauth2.Config{
		ClientID: s.ClientID, ClientSecret: s.ClientSecret, Scopes: s.Scopes,
		Endpoint: oauth2.Endpoint{TokenURL: s.TokenURL, AuthStyle: s.AuthStyle},
	}
	u.token = &oauth2.Token{AccessToken: s.AccessToken, TokenType: s.TokenType, RefreshToken: s.RefreshToken, Expiry: s.Expiry}
	return nil
}

func (u *userTokens) loginAgain(err error) error {
	return apierr.Wrap(err, apierr.ToolError, "a user must log in at the MCP server %s: run `agentbus mcp login %s`", u.options.Name, u.options.Name)
}
