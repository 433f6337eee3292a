// Package api is the hub's HTTP API: for clients with API keys, and for agents with their own keys (TARS hub protocol,
// Registration Flow and Heartbeat).
package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/task"
	"github.com/go-json-experiment/json"
)

// maxBody bounds a body, in bytes; a task may be long, and a completion brings a result.
const maxBody = 2 << 20

// answerWithin is how long a call may take: an agent has thirty seconds to take a task, and ten to say whether it did.
const answerWithin = 45 * time.Second

// API answers HTTP requests below /api/agents.
type API struct {
	keys     *auth.Keyring // nil = authentication is off
	registry *registry.Registry
	tasks    *task.Service
	limits   limits
	log      *slog.Logger
	mux      *http.ServeMux
	streams  chan struct{} // a token for each open stream
	stopping chan struct{} // closed when streams shall end
	routes   []string      // patterns of the mux, except for what is not there
}

// New returns an API. Without keys every caller is auth.Dev. The rate is that of an API key and of an agent.
func New(keys *auth.Keyring, r *registry.Registry, d *task.Service, rate limit.Rate, log *slog.Logger) *API {
	a := &API{
		keys: keys, registry: r, tasks: d, log: log, mux: http.NewServeMux(),
		streams: make(chan struct{}, maxStreams), stopping: make(chan struct{}),
		limits: limits{guesses: limit.NewRates(guessRate()), calls: limit.NewRates(rate)},
	}
	a.user("POST /api/agents", auth.ScopeAgents, a.postAgent)
	a.user("GET /api/agents", auth.ScopeRead, a.getAgents)
	a.user("GET /api/agents/{id}", auth.ScopeRead, a.getAgent)
	a.user("PATCH /api/agents/{id}", auth.ScopeAgents, a.patchAgent)
	a.user("DELETE /api/agents/{id}", auth.ScopeAgents, a.deleteAgent)
	a.user("POST /api/agents/{id}/key", auth.ScopeAgents, a.postKey)
	a.user("POST /api/agents/tokens", auth.ScopeAgents, a.postToken)
	a.user("POST /api/agents/{id}/tasks", auth.ScopeRun, a.postTask)
	a.user("GET /api/agents/{id}/tasks", auth.ScopeRead, a.getTasks)
	a.route("GET /api/agents/{id}/tasks/{taskId}/stream", a.stream)
	a.route("GET /api/agents/{id}/tasks/{taskId}/files/{path...}", a.file)
	a.user("GET /api/agents/{id}/tasks/{taskId}", auth.ScopeRead, a.getTask)
	a.user("POST /api/agents/{id}/tasks/{taskId}/cancel", auth.ScopeRun, a.postCancel)
	a.user("POST /api/agents/{id}/tasks/{taskId}/actions", auth.ScopeRun, a.postActions)
	a.handle("POST "+remoteagent.PathRegister, a.postRegister)
	a.handle("POST "+remoteagent.PathHeartbeat("{id}"), a.postHeartbeat)
	a.handle("POST "+remoteagent.PathWebhook, a.postWebhook)
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, apierr.New(apierr.RouteNotFound, "there is no %s %.200s here; docs/hub.md lists the hub's routes", r.Method, r.URL.Path))
	})
	return a
}

// Routes lists what is served, as patterns of [http.ServeMux].
func (a *API) Routes() []string { return slices.Clone(a.routes) }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// handler answers a request with a value that becomes JSON.
type handler func(r *http.Request) (status int, answer any, err error)

// Drain ends the open streams, so that their clients reconnect. It is called once.
func (a *API) Drain() { close(a.stopping) }

func (a *API) route(pattern string, h http.HandlerFunc) {
	a.routes = append(a.routes, pattern)
	a.mux.HandleFunc(pattern, h)
}

func (a *API) handle(pattern string, h handler) {
	a.route(pattern, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		status, answer, err := h(r.WithContext(ctx))
		if err != nil {
			a.fail(w, r, a.guessed(r, err))
			return
		}
		a.reply(w, r, status, answer)
	})
}

// user registers a route for callers with an API key.
func (a *API) user(pattern string, scope auth.Scope, h func(*http.Request, auth.Principal) (int, any, error)) {
	a.handle(pattern, func(r *http.Request) (int, any, error) {
		p, err := a.principal(r, scope)
		if err != nil {
			return 0, nil, err
		}
		return h(r, p)
	})
}

// principal returns the caller, if the key is good for scope.
func (a *API) principal(r *http.Request, scope auth.Scope) (auth.Principal, error) {
	p, err := a.verify(r)
	if err != nil || a.keys == nil {
		return p, err
	}
	if !p.May(scope) {
		return auth.Principal{}, apierr.New(apierr.AuthFailed, "the API key %s lacks the scope %q that this call needs", p.KeyID, scope)
	}
	return p, a.paced("key " + p.KeyID)
}

// verify returns the caller of the key, whatever that is good for.
func (a *API) verify(r *http.Request) (auth.Principal, error) {
	if a.keys == nil {
		return auth.Dev(), nil
	}
	key, err := auth.Bearer(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	return a.keys.Verify(key, a.registry.Now())
}

func (a *API) reply(w http.ResponseWriter, r *http.Request, status int, answer any) {
	if answer == nil {
		w.WriteHeader(status)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who does not read it has left
}

// fail answers with an error in the form that agent servers use too.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := apierr.From(err)
	if f.Code == apierr.Internal {
		a.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	refusal := remoteagent.Refuse(statusOf(f.Code), f.Code, "%s", f.Message)
	refusal.Retryable = f.Retryable
	if f.Code == apierr.AuthFailed {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	body, err := json.Marshal(refusal)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(refusal.HTTP)
	_, _ = w.Write(append(body, '\n'))
}

func statusOf(code apierr.Code) int {
	switch code {
	case apierr.InvalidMessageFormat, apierr.InvalidActionID:
		return http.StatusBadRequest
	case apierr.AuthFailed:
		return http.StatusUnauthorized
	case apierr.AgentNotFound, apierr.RequestNotFound, apierr.RouteNotFound:
		return http.StatusNotFound
	case apierr.ThreadBusy:
		return http.StatusConflict
	case apierr.IdempotencyMismatch:
		return http.StatusUnprocessableEntity
	case apierr.MessageTooLarge:
		return http.StatusRequestEntityTooLarge
	case apierr.RateLimitExceeded:
		return http.StatusTooManyRequests
	case apierr.Unavailable:
		return http.StatusServiceUnavailable
	case apierr.AgentError:
		return http.StatusBadGateway
	default:
		return http.StatusInternalServerError
	}
}

// read decodes a body. Agents may be newer than their hub, so that unknown members of their bodies are skipped; clients
// get an error.
func read(r *http.Request, into any, options ...json.Options) error {
	text, err := io.ReadAll(r.Body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return apierr.New(apierr.MessageTooLarge, "the body is larger than %d bytes", maxBody)
	}
	if err != nil {
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "the body could not be read; send it again")
	}
	if err := json.Unmarshal(text, into, options...); err != nil {
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "the body is refused: %s", remoteagent.ExplainJSON(err))
	}
	return nil
}
