// Package mcp is the hub as an MCP server: the tools of the hub (TARS hub protocol, MCP Tools) for any MCP client.
// pkg/hubapi has the tools; this package serves them.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxBody     = 1 << 20          // bytes of a message
	sessionIdle = 10 * time.Minute // after which a session is forgotten, where there are any
	verifyAfter = time.Hour        // a key is looked at with every request; the SDK wants an end nevertheless
)

const instructions = "Remote agents work on tasks by themselves, each on its machine. list_agents lists them, " +
	"assign_task assigns a task to one, check_status and get_result return its state and result, cancel_task cancels it."

// Options say what a server offers, and to whom.
type Options struct {
	Door      hubapi.Door
	Principal func(*http.Request) (auth.Principal, error) // the caller; nil = every caller is auth.Dev
	Version   string
	Sessions  bool // keep sessions, which sampling and elicitation need; the hub's tools need none
	Log       *slog.Logger
}

// New returns the handler of the endpoint: streamable HTTP. It keeps nothing between two requests, so any process may
// answer any of them, unless it has sessions.
func New(o Options) http.Handler { return Handler(NewServer(o, new(sdk.ServerOptions)), o) }

// NewServer returns a server with the hub's tools. It sets the instructions and the logger of options.
func NewServer(o Options, options *sdk.ServerOptions) *sdk.Server {
	options.Instructions, options.Logger = instructions, o.Log
	server := sdk.NewServer(&sdk.Implementation{Name: "agentbus", Title: "agentbus hub", Version: o.Version}, options)
	box := hubapi.NewToolbox(o.Door)
	for _, spec := range hubapi.Specs() {
		server.AddTool(describe(spec), call(box, spec, o.Principal == nil))
	}
	return server
}

// Handler returns the handler of an endpoint that a server of NewServer serves.
func Handler(server *sdk.Server, o Options) http.Handler {
	handler := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: !o.Sessions, SessionTimeout: sessionIdle, Logger: o.Log,
	}))
	handler = withoutDeadline(handler)
	if o.Principal != nil {
		handler = sdkauth.RequireBearerToken(verifier(o.Principal), nil)(handler)
	}
	return handler
}

// withoutDeadline lets a response last longer than a request may take to arrive: the deadline for reading, which would end it,
// is lifted as soon as the body is there.
func withoutDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(w, fmt.Sprintf("a message has at most %d bytes", maxBody), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "the body did not arrive whole; send it again", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a writer without deadlines has none to lift
		next.ServeHTTP(w, r)
	})
}

const principalKey = "principal"

// verifier has the SDK check keys as every other route does. It also binds a session to the key's owner.
func verifier(principal func(*http.Request) (auth.Principal, error)) sdkauth.TokenVerifier {
	return func(_ context.Context, _ string, r *http.Request) (*sdkauth.TokenInfo, error) {
		p, err := principal(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", apierr.From(err).Message, errors.Join(sdkauth.ErrInvalidToken, err))
		}
		return &sdkauth.TokenInfo{
			UserID: p.Tenant + "/" + p.Subject, Expiration: time.Now().Add(verifyAfter), Extra: map[string]any{principalKey: p},
		}, nil
	}
}

// caller returns the principal of a call; false = unknown. Without authentication it is auth.Dev.
func caller(r *sdk.CallToolRequest, open bool) (p auth.Principal, known bool) {
	if open {
		return auth.Dev(), true
	}
	if r.Extra == nil || r.Extra.TokenInfo == nil {
		return auth.Principal{}, false
	}
	p, known = r.Extra.TokenInfo.Extra[principalKey].(auth.Principal)
	return p, known
}

// describe converts the description of a tool for MCP clients.
func describe(spec tool.Spec) *sdk.Tool {
	return &sdk.Tool{
		Name: spec.Name, Description: spec.Description, InputSchema: spec.Schema,
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint: spec.Effect == tool.EffectNone, IdempotentHint: spec.Name == hubapi.VerbCancelTask,
			DestructiveHint: new(spec.Effect != tool.EffectNone),
		},
	}
}

// call runs a tool of the hub for the principal of the key. Errors become the tool's result, so that the model can
// handle them.
func call(box hubapi.Toolbox, spec tool.Spec, open bool) sdk.ToolHandler {
	scope := auth.ScopeRun
	if spec.Effect == tool.EffectNone {
		scope = auth.ScopeRead
	}
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p, known := caller(r, open)
		if !known {
			return refuse(apierr.New(apierr.AuthFailed, "an API key is missing; send it as a bearer")), nil
		}
		if !p.May(scope) {
			return refuse(apierr.New(apierr.AuthFailed, "the API key %s lacks the scope %q that %s needs", p.KeyID, scope, spec.Name)), nil
		}
		reply, err := box.Call(ctx, hubapi.Caller{Tenant: p.Tenant}, spec.Name, r.Params.Arguments)
		if err != nil {
			return refuse(err), nil
		}
		data, err := jsonv2.Marshal(reply.Data)
		if err != nil {
			return nil, fmt.Errorf("encode the answer of %s: %w", spec.Name, err)
		}
		return &sdk.CallToolResult{
			Content: []sdk.Content{&sdk.TextContent{Text: reply.Text}}, StructuredContent: json.RawMessage(data),
		}, nil
	}
}

func refuse(err error) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: apierr.From(err).Message}}, IsError: true}
}
