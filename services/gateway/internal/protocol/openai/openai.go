// Package openai is OpenAI's API under /openai/v1: agents are its models. The codecs are in package wire and the packages
// below it.
package openai

import (
	"errors"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct{ protocol.Services }

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "openai" }

// EncodeError implements protocol.Protocol.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.EncodeError(e)
}

// maxBody is the limit of a body, in bytes: clients send the whole conversation with each request.
const maxBody = 4 << 20

// Routes implements protocol.Protocol.
func (s *Server) Routes() []protocol.Route {
	const chats, models, all = "/openai/v1/chat/completions", "/openai/v1/models", "/openai/v1/responses"
	return []protocol.Route{
		{
			Method: http.MethodPost, Path: all, Scope: auth.ScopeRun, Body: true, MaxBody: maxBody,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.postResponse,
		},
		{
			Method: http.MethodGet, Path: all + "/:responseId", Scope: auth.ScopeRead,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.getResponse,
		},
		{
			Method: http.MethodPost, Path: all + "/:responseId/cancel", Scope: auth.ScopeRun,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.cancelResponse,
		},
		{Method: http.MethodDelete, Path: all + "/:responseId", Scope: auth.ScopeRun, Serve: s.deleteResponse},
		{
			Method: http.MethodGet, Path: all + "/:responseId/input_items", Scope: auth.ScopeRead,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.getInputItems,
		},
		{
			Method: http.MethodPost, Path: chats, Scope: auth.ScopeRun, Body: true, MaxBody: maxBody,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.postChat,
		},
		{
			Method: http.MethodGet, Path: chats + "/:completionId", Scope: auth.ScopeRead,
			Limit: protocol.StreamLimit, Untimed: true, Serve: s.getChat,
		},
		{Method: http.MethodGet, Path: models, Scope: auth.ScopeRead, Serve: s.getModels},
		{Method: http.MethodGet, Path: models + "/:model", Scope: auth.ScopeRead, Serve: s.getModel},
	}
}

// find returns a request that the caller may see.
func (s *Server) find(x *protocol.Exchange, requestID string) (authz.Request, error) {
	defer x.WithTimeout()()
	r, err := s.Guard.Request(x.Context(), x.Principal(), requestID)
	x.Audit(r.ThreadID, requestID, err)
	if err == nil {
		x.SetHeader(protocol.HeaderRequestID, r.RequestID)
		x.SetHeader(protocol.HeaderThreadID, r.ThreadID)
	}
	return r, err
}

// openLog opens the log of a request from its first event, which the encoders need wherever a stream begins.
func (s *Server) openLog(x *protocol.Exchange, r authz.Request) (stream.Response, error) {
	defer x.WithTimeout()()
	frames, err := s.Logs.Open(x.Context(), r, 0)
	if err != nil {
		return stream.Response{}, err
	}
	return x.Resume(frames), nil
}

// shouldRetry is the header by which OpenAI's clients decide whether they send a request again.
const shouldRetry = "X-Should-Retry"

// continues returns the error of a response that ends before its request. The header stops clients from running the agent again,
// unless no runner has started the request, which is then aborted.
func continues(x *protocol.Exchange, err error) error {
	if !errors.Is(err, stream.ErrNotStarted) {
		x.SetHeader(shouldRetry, "false")
	}
	return err
}

// failed returns the error of a request that did not end well. The header stops clients from running the agent again where
// this is of no use: without it they retry every status from 500 on.
func failed(x *protocol.Exchange, end wire.Error, retryable bool) error {
	x.SetHeader(shouldRetry, map[bool]string{true: "true", false: "false"}[retryable])
	code := apierr.Code(end.Code)
	if !slices.Contains(apierr.Codes(), code) {
		code = apierr.AgentError
	}
	e := apierr.New(code, "%s", end.Message)
	e.Retryable = retryable
	return e
}
