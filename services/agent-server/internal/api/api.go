// Package api is the HTTP API of an agent-server (TARS hub protocol, Remote Agent Server).
//
// Read api.go for the routes and the middleware, tasks.go and stream.go for tasks, agent.go for the agent itself.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/go-json-experiment/json"
)

// Scheduler is where tasks are.
type Scheduler interface {
	Submit(ctx context.Context, a remoteagent.Assignment, key string) (task remoteagent.Task, fresh bool, err error)
	Task(ctx context.Context, taskID string) (remoteagent.Task, error)
	Tasks(ctx context.Context, q remoteagent.Query) ([]remoteagent.Task, error)
	Cancel(ctx context.Context, taskID string) (remoteagent.Cancellation, error)
	Answer(ctx context.Context, taskID string, a remoteagent.Answer) (remoteagent.Task, error)
}

// Events is where the events of tasks are.
type Events interface {
	Events(ctx context.Context, taskID string, after uint64, limit int) ([]store.Event, error)
	LastEvent(ctx context.Context, taskID string) (store.Event, error)
	News(taskID string) <-chan struct{}
}

// Agent reports the description and the condition of the agent.
type Agent interface {
	Info(ctx context.Context) (remoteagent.Info, error)
	Health(ctx context.Context) remoteagent.Health
}

// Keys say who may ask.
type Keys interface {
	Good(secret string) bool
	Rotate(ctx context.Context, r remoteagent.Rotation) (remoteagent.Rotated, error)
}

// Deps is what the API works with.
type Deps struct {
	Scheduler Scheduler
	Events    Events
	Agent     Agent
	Keys      Keys
	OpenFile  func(ctx context.Context, taskID, name string) (file *os.File, size int64, err error) // of the folder that a task works in
	Rate      limit.Rate                                                                            // of a key
	MaxBody   int64
	Heartbeat time.Duration // of streams
	Streams   int           // open at one time
	Log       *slog.Logger
}

// API serves HTTP.
type API struct {
	deps     Deps
	routes   *http.ServeMux
	patterns []string     // of routes, except for what is not there
	asked    *limit.Rates // by key
	mistaken *limit.Rates // by address: callers without a good key
	streams  chan struct{}
	stopping chan struct{}
}

const (
	// writeTime is how long an answer, or one write of a stream, may take.
	writeTime = 30 * time.Second
	readTime  = 30 * time.Second
)

// New returns the API.
func New(deps Deps) *API {
	a := &API{
		deps: deps, routes: http.NewServeMux(), asked: limit.NewRates(deps.Rate),
		mistaken: limit.NewRates(limit.Rate{Requests: 60, Per: time.Minute, Burst: 60}),
		streams:  make(chan struct{}, deps.Streams), stopping: make(chan struct{}),
	}
	a.route("POST /tasks", a.create)
	a.route("GET /tasks", a.list)
	a.route("GET /tasks/{id}", a.status)
	a.route("GET /tasks/{id}/stream", a.stream)
	a.route("POST /tasks/{id}/cancel", a.cancel)
	a.route("POST /tasks/{id}/actions", a.act)
	a.route("GET /tasks/{id}/files/{path...}", a.file)
	a.route("GET /agent/info", a.info)
	a.route("GET /agent/health", a.health)
	a.route("POST /agent/keys", a.rotate)
	a.routes.HandleFunc("/", a.handle(a.unknown))
	return a
}

func (a *API) route(pattern string, do func(http.ResponseWriter, *http.Request) error) {
	a.patterns = append(a.patterns, pattern)
	a.routes.HandleFunc(pattern, a.handle(do))
}

// Routes lists what is served, as patterns of [http.ServeMux].
func (a *API) Routes() []string { return slices.Clone(a.patterns) }

// Drain ends the open streams, so that a server can be shut down: their clients come back.
func (a *API) Drain() { close(a.stopping) }

// ServeHTTP checks who asks before anything of the request is read.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer a.recover(r)
	connection := http.NewResponseController(w)
	_ = connection.SetWriteDeadline(time.Now().Add(writeTime)) // a writer without deadlines is not a connection
	_ = connection.SetReadDeadline(time.Now().Add(readTime))
	w.Header().Set("Cache-Control", "no-store")
	if err := a.admit(r); err != nil {
		w.Header().Set("Connection", "close") // the body stays unread
		a.refuse(w, r, err)
		return
	}
	a.routes.ServeHTTP(w, r)
}

// admit checks the key (TARS hub protocol, Authentication & Security), and the caller's rate limit.
func (a *API) admit(r *http.Request) error {
	secret, named := bearer(r)
	if named && a.deps.Keys.Good(secret) {
		return pace(a.asked, secret)
	}
	if err := pace(a.mistaken, limit.Network(r.RemoteAddr)); err != nil {
		return err
	}
	if !named {
		refusal := remoteagent.Refuse(http.StatusUnauthorized, apierr.AuthFailed,
			"a key is missing; send one header Authorization: Bearer KEY")
		return refusal
	}
	return remoteagent.Refuse(http.StatusForbidden, apierr.AuthFailed, "the key is not valid for this agent, or no longer")
}

// bearer returns the key that a request carries in its one Authorization header.
func bearer(r *http.Request) (secret string, named bool) {
	secret, err := auth.Bearer(r.Header)
	return secret, err == nil
}

func pace(limits *limit.Rates, caller string) error {
	wait, ok := limits.Allow(caller)
	if ok {
		return nil
	}
	r := remoteagent.Refuse(http.StatusTooManyRequests, apierr.RateLimitExceeded, "too many requests; wait as long as Retry-After says")
	r.RetryAfter = max(wait, time.Second)
	return r
}

// handle makes a handler of one that returns what went wrong before it has answered.
func (a *API) handle(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			a.refuse(w, r, err)
		}
	}
}

func (a *API) unknown(_ http.ResponseWriter, r *http.Request) error {
	return remoteagent.Refuse(http.StatusNotFound, apierr.RouteNotFound, "there is no %s %.100s; see docs/agent-server.md for what there is",
		r.Method, r.URL.Path)
}

// refuse answers with what went wrong. What has no words for clients is for the log alone.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refusal, ok := errors.AsType[*remoteagent.Refusal](err)
	if !ok {
		if r.Context().Err() != nil {
			return // the client has disconnected
		}
		a.deps.Log.ErrorContext(r.Context(), "a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		f := apierr.From(err)
		refusal = remoteagent.Refuse(http.StatusInternalServerError, f.Code, "%s", f.Message)
		refusal.Retryable = f.Retryable
	}
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((refusal.RetryAfter+time.Second-1)/time.Second)))
	}
	if refusal.HTTP == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	a.answer(w, r, refusal.HTTP, refusal)
}

func (a *API) answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		a.deps.Log.ErrorContext(r.Context(), "an answer could not be encoded", "path", r.URL.Path, "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) //nolint:gosec // JSON, and never rendered as a page; a client that is gone needs no answer
}

// recover keeps a panic from ending the process: tasks run in it.
func (a *API) recover(r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		a.deps.Log.ErrorContext(r.Context(), "a handler panicked", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler) // whatever was answered is not whole
}
