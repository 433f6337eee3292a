// Package hub is the hub of the TARS hub protocol: it registers remote agents, assigns tasks to them, follows the
// tasks, and counts their costs. Its interfaces are HTTP (docs/hub.md) and the bus (pkg/hubapi).
//
// One process runs at a time; a second one, as in a rolling deployment, is harmless. Read internal/registry for agents,
// internal/task for tasks, internal/store for the database.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/keyseal"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/hub/internal/api"
	"github.com/agentbus/agentbus/services/hub/internal/mcp"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
	"github.com/agentbus/agentbus/services/hub/internal/task"
	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"
)

// Bus is what a hub uses of a *bus.Bus.
type Bus interface {
	registry.Publisher
	Serve(ctx context.Context, service string, verbs map[string]bus.Handler) error
	WatchKeys(ctx context.Context, changed func(bus.KeyRecord), ready func()) error
	Ready(ctx context.Context) error
	Verify(ctx context.Context) error // measures the clock of Now
	Now() time.Time
}

// Deps are what a hub works with.
type Deps struct {
	Bus         Bus
	DatabaseURL string // postgres://user:password@host:port/name, sqlite:PATH or sqlite::memory:
	Secret      []byte // what the keys of agents are sealed with
	Config      config.Config

	// AuthRequired asks every caller for an API key, checked under Pepper. Without it everybody is auth.Dev: for
	// development on loopback only.
	AuthRequired bool
	Pepper       []byte

	Poll time.Duration // between two looks at all agents; 0 = 10 s
	Log  *slog.Logger  // nil = the default one
}

const (
	defaultPoll    = 10 * time.Second
	defaultOverlap = 10 * time.Minute
	defaultKeep    = 90 * 24 * time.Hour
	// bodyTime is how long a body may take to arrive.
	bodyTime = 30 * time.Second
	// connections is how many connections a public address may have.
	connections = 1000
)

// Hub is one process of the service. Its methods are safe for concurrent use.
type Hub struct {
	bus      Bus
	store    *store.Store
	keys     *auth.Keyring // nil = authentication is off
	registry *registry.Registry
	tasks    *task.Service
	api      *api.API
	mcp      http.Handler
	keep     time.Duration // of tasks after their end
	log      *slog.Logger
}

// New opens the database and brings its tables up to date. The caller runs Run, which closes it.
func New(ctx context.Context, d Deps) (*Hub, error) {
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Poll == 0 {
		d.Poll = defaultPoll
	}
	safe, err := keyseal.New(d.Secret, keyseal.HubAgentKeys)
	if err != nil {
		return nil, fmt.Errorf("HUB_SECRET: %w", err)
	}
	keys, err := keyring(d)
	if err != nil {
		return nil, err
	}
	client, err := hubapi.Reach(d.Config.Hub.Allow, d.Config.Hub.PlainHTTP)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, d.DatabaseURL)
	if err != nil {
		return nil, err
	}
	r := registry.New(registry.Options{
		Store: s, Vault: safe, Publisher: d.Bus, HTTP: client, Poll: d.Poll, Now: d.Bus.Now, Log: d.Log,
		Reserved:     func(id string) bool { _, ok := d.Config.Agents[id]; return ok },
		OfflineAfter: d.Config.Hub.OfflineAfter.Or(remoteagent.OfflineAfter), Overlap: d.Config.Hub.Overlap.Or(defaultOverlap),
	})
	desk := task.NewService(s, r, d.Config.Hub.Budget, d.Log)
	o := &Hub{
		bus: d.Bus, store: s, keys: keys, registry: r, tasks: desk, api: api.New(keys, r, desk, rate(d.Config.Hub), d.Log),
		keep: d.Config.Hub.Keep.Or(defaultKeep), log: d.Log,
	}
	o.mcp = mcp.New(o.endpoint())
	if o.keys != nil {
		o.mcp = o.api.Guard(auth.ScopeRead, o.mcp)
	}
	return o, nil
}

// endpoint says what /mcp offers.
func (o *Hub) endpoint() mcp.Options {
	options := mcp.Options{Door: o.tasks, Version: service.Version(), Log: o.log}
	if o.keys != nil {
		options.Principal = api.PrincipalOf
	}
	return options
}

// rate is how often an API key or an agent may call.
func rate(c config.Hub) limit.Rate {
	if c.RateLimit.Requests == 0 {
		return limit.Rate{Requests: 600, Per: time.Minute, Burst: 600}
	}
	return limit.Rate{
		Requests: c.RateLimit.Requests, Per: c.RateLimit.Per.Or(time.Minute), Burst: cmp.Or(c.RateLimit.Burst, c.RateLimit.Requests),
	}
}

func keyring(d Deps) (*auth.Keyring, error) {
	if !d.AuthRequired {
		return nil, nil //nolint:nilnil // no keyring is how the API is told that authentication is off
	}
	issuer, err := auth.NewIssuer(d.Pepper)
	if err != nil {
		return nil, fmt.Errorf("authentication is required: %w", err)
	}
	return auth.NewKeyring(issuer), nil
}

// Routes lists what Handler serves, as patterns of [http.ServeMux].
func (o *Hub) Routes() []string {
	return append(o.api.Routes(), "POST "+pathMCP, "GET "+pathMCP, "DELETE "+pathMCP)
}

// pathMCP is where the hub's tools are.
const pathMCP = "/mcp"

// Handler serves /api/agents and /mcp. Web pages of other origins are refused: nothing here is meant for them.
func (o *Hub) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", o.api)
	mux.Handle(pathMCP, o.mcp)
	return service.CloseChunked(http.NewCrossOriginProtection().Handler(inTime(mux)))
}

// inTime closes the connection of a client whose body takes longer than bodyTime. Once the body is here, a call may take
// longer: it may wait for an agent.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody && connection.SetReadDeadline(time.Now().Add(bodyTime)) == nil {
			r.Body = &pacedBody{ReadCloser: r.Body, connection: connection}
		}
		next.ServeHTTP(w, r)
	})
}

// pacedBody is a body that lifts the deadline of its connection when it is complete.
type pacedBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (a *pacedBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF {
		_ = a.connection.SetReadDeadline(time.Time{}) // a connection without deadlines has none to lift
	}
	return n, err
}

// Server returns an HTTP server for addr.
func (o *Hub) Server(addr string) *http.Server {
	return &http.Server{
		Addr: addr, Handler: o.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelDebug),
	}
}

// Limit returns a listener that limits the connections of each public address. Connections through a proxy, which
// usually has a private address, must be limited by the proxy.
func (o *Hub) Limit(l net.Listener) net.Listener {
	return limit.NewConnections(connections, false).Listen(l)
}

// Drain ends the open streams. It is called once.
func (o *Hub) Drain() { o.api.Drain() }

// Run looks after agents and tasks and answers questions until ctx is done, and then closes the database.
func (o *Hub) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return o.registry.Run(ctx) })
	group.Go(func() error { return o.tasks.Run(ctx) })
	group.Go(func() error { return o.tasks.Trim(ctx, o.keep) })
	group.Go(func() error { return o.measure(ctx) })
	group.Go(func() error { return o.bus.Serve(ctx, hubapi.Service, o.verbs()) })
	group.Go(func() error {
		return o.bus.Serve(ctx, hubapi.FollowService, map[string]bus.Handler{hubapi.VerbFollow: verb(o.tasks.Follow)})
	})
	if o.keys != nil {
		group.Go(func() error { return o.watchKeys(ctx) })
	}
	return errors.Join(group.Wait(), o.store.Close())
}

// measureEvery is how often the broker is asked what time it is.
const measureEvery = time.Minute

// measure keeps the time of Bus.Now true: nothing else here looks at the broker's streams.
func (o *Hub) measure(ctx context.Context) error {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := o.bus.Verify(ctx); err != nil && ctx.Err() == nil {
			o.log.WarnContext(ctx, "the broker's clock could not be read", "error", err)
		}
	}
}

func (o *Hub) verbs() map[string]bus.Handler {
	return map[string]bus.Handler{
		hubapi.VerbAssignTask:  verb(o.tasks.AssignTask),
		hubapi.VerbCheckStatus: verb(o.tasks.CheckStatus),
		hubapi.VerbGetResult:   verb(o.tasks.GetResult),
		hubapi.VerbCancelTask:  verb(o.tasks.CancelTask),
		hubapi.VerbAnswerTask:  verb(o.tasks.AnswerTask),
		hubapi.VerbListAgents:  verb(o.tasks.ListAgents),
		hubapi.VerbConnect:     verb(o.tasks.Connect),
	}
}

// verb decodes a question.
func verb[Q, A any](answer func(context.Context, Q) (A, error)) bus.Handler {
	return func(ctx context.Context, question []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(question, &q); err != nil {
			return nil, apierr.Wrap(err, apierr.InvalidMessageFormat, "the query is not JSON of the form that pkg/hubapi defines")
		}
		return answer(ctx, q)
	}
}

func (o *Hub) watchKeys(ctx context.Context) error {
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for ctx.Err() == nil {
		err := o.bus.WatchKeys(ctx, func(k bus.KeyRecord) { o.keys.Put(auth.Record(k)) }, o.keys.Loaded)
		if ctx.Err() == nil {
			o.log.WarnContext(ctx, "API keys are not watched; trying again", "error", err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// Ready reports why the hub cannot do its work, or nil.
func (o *Hub) Ready(ctx context.Context) error {
	if o.keys != nil && !o.keys.Ready() {
		return errors.New("the API keys are not loaded yet")
	}
	return errors.Join(o.bus.Ready(ctx), o.store.Ready(ctx))
}
