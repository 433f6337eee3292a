// Package dev is `agentbus dev`: every service in one process, on embedded NATS, Redis and SQLite, or on real servers
// if their addresses are given. The services are the same as in production and communicate over the same bus.
package dev

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/datadir"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/agentbus/agentbus/services/history"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// Options are the settings of a stack.
type Options struct {
	Addr       string // host:port of the gateway
	Data       string // folder for all data; "" = memory
	ConfigFile string
	NATS       string // URL; "" = embedded
	NATSAddr   string // host:port of the embedded NATS; if it is in use, any port
	Redis      string // URL; "" = embedded
	Database   string // URL; "" = SQLite in Data
	Auth       bool   // require API keys
	Pepper     string // the pepper of API keys; "" = the one in Data, or a new one

	Extensions app.Extensions // backends and tools of the program

	Getenv  func(string) string
	Metrics http.Handler
	Log     *slog.Logger
	Started func(Info) // called once, when the gateway is ready
}

// Info describes a running stack to the user.
type Info struct {
	URL    string // of the gateway
	NATS   string
	Data   string // "" = data is in memory
	Agents []string
	Key    string // an API key, if keys are required
}

// grace limits the time of a stop, because a user waits for it.
const grace = 8 * time.Second

// Run runs all services until ctx is done.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	base := config.Default(o.Getenv)
	base = base.With(config.Config{Demo: true, Hub: allowPrivate()})
	cfg := base
	if o.ConfigFile != "" {
		var err error
		if cfg, err = config.Load(o.ConfigFile, base, o.Extensions.Known()); err != nil {
			return err
		}
	}
	return service.Run(ctx, service.Options{Log: o.Log, Grace: grace}, func(ctx context.Context) (service.Parts, error) {
		s := &stack{options: o, config: cfg}
		parts, err := s.build(ctx)
		if err != nil {
			s.close()
			return service.Parts{}, err
		}
		return parts, nil
	})
}

// check refuses to serve the network without API keys.
func (o Options) check() error {
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return fmt.Errorf("--addr %q: write host:port, such as 127.0.0.1:8080", o.Addr)
	}
	if ip := net.ParseIP(host); o.Auth || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--addr %s is open to others, and anyone could use it: add --auth to ask for keys, or listen on 127.0.0.1", o.Addr)
}

// stack holds the open resources, to close them in reverse order.
type stack struct {
	options Options
	config  config.Config
	servers servers
	data    *datadir.Dir // nil = data is in memory
	keys    credentials  // if keys are required
	hub     http.Handler
	closers []func()
}

func (s *stack) closing(f func()) { s.closers = append(s.closers, f) }

func (s *stack) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
	s.closers = nil
}

func (s *stack) build(ctx context.Context) (service.Parts, error) {
	if err := s.openServers(ctx); err != nil {
		return service.Parts{}, err
	}
	actors := []service.Actor{{Name: "redis clock", Run: s.servers.keepTime}}
	for _, part := range []func(context.Context) ([]service.Actor, error){
		s.history, s.toolExecutor, s.agentRunner, s.credentials, s.startHub, s.gateway,
	} {
		more, err := part(ctx)
		if err != nil {
			return service.Parts{}, err
		}
		actors = append(actors, more...)
	}
	return service.Parts{Actors: actors, Close: s.close}, nil
}

// connect opens a separate connection for each service, as in production.
func (s *stack) connect(ctx context.Context, name string) (*bus.Bus, error) {
	o := bus.Options{URL: s.options.NATS, Name: name}
	if s.servers.nats != nil {
		o.InProcess, o.URL = s.servers.nats, s.servers.nats.URL()
	}
	b, err := bus.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	s.closing(b.Close)
	vars := env.Environ{"NATS_MAX_AGE": s.options.Getenv("NATS_MAX_AGE"), "NATS_MAX_BYTES": s.options.Getenv("NATS_MAX_BYTES")}
	streams, err := env.Load[env.Streams](vars)
	if err != nil {
		return nil, err
	}
	storage := bus.Storage{
		Memory: s.servers.nats != nil && s.options.Data == "", MaxAge: streams.MaxAge, MaxBytes: streams.MaxBytes,
	}
	if err := b.Provision(ctx, storage); err != nil {
		return nil, err
	}
	if err := s.config.FitsRetention(b.MaxAge()); err != nil {
		return nil, fmt.Errorf("--config %s: %w", s.options.ConfigFile, err)
	}
	return b, nil
}

func (s *stack) log(name string) *slog.Logger { return s.options.Log.With("service", name) }

func (s *stack) history(ctx context.Context) ([]service.Actor, error) {
	b, err := s.connect(ctx, "history")
	if err != nil {
		return nil, err
	}
	h, err := history.New(ctx, history.Deps{Bus: history.BusOf(b), DatabaseURL: s.servers.database, Log: s.log("history")})
	if err != nil {
		return nil, err
	}
	return []service.Actor{{Name: "history", Run: h.Run}}, nil
}

func (s *stack) toolExecutor(ctx context.Context) ([]service.Actor, error) {
	b, err := s.connect(ctx, "tool-executor")
	if err != nil {
		return nil, err
	}
	x, err := toolexecutor.New(toolexecutor.Deps{
		Bus: toolexecutor.BusOf(b), History: historyapi.NewClient(b), Config: s.config,
		Added: s.options.Extensions.Tools, Tools: builtin.HubTools(s.config, hubapi.NewClient(b)),
		Secret: env.Secrets(s.options.Getenv), Log: s.log("tool-executor"), Grace: grace / 4,
	})
	if err != nil {
		return nil, err
	}
	return []service.Actor{{Name: "tool-executor", Run: x.Run}}, nil
}

func (s *stack) agentRunner(ctx context.Context) ([]service.Actor, error) {
	b, err := s.connect(ctx, "agent-runner")
	if err != nil {
		return nil, err
	}
	store, err := s.state()
	if err != nil {
		return nil, err
	}
	backends, err := agentrunner.Backends(s.config, s.options.Getenv, s.options.Extensions.Backends)
	if err != nil {
		return nil, err
	}
	r, err := agentrunner.New(agentrunner.Deps{
		Bus: agentrunner.BusOf(b), History: historyapi.NewClient(b), Actions: store, Config: s.config,
		Specs:    builtin.WithHub(s.config, builtin.Specs(s.config, s.options.Extensions.Tools...)),
		Backends: backends, Hub: hubapi.NewClient(b), Log: s.log("agent-runner"), Build: service.Version, Grace: grace / 4,
	})
	if err != nil {
		return nil, err
	}
	return []service.Actor{{Name: "agent-runner", Run: r.Run}}, nil
}

func (s *stack) gateway(ctx context.Context) ([]service.Actor, error) {
	b, err := s.connect(ctx, "gateway")
	if err != nil {
		return nil, err
	}
	store, err := s.state()
	if err != nil {
		return nil, err
	}
	metrics := s.options.Metrics
	if s.options.Auth {
		metrics = nil // the address may be public, and scrapers have no key
	}
	g, err := gateway.New(gateway.Deps{ //nolint:contextcheck // its handlers have contexts of their own
		Bus: b, History: historyapi.NewClient(b), State: store, Config: s.config, Log: s.log("gateway"),
		AuthRequired: s.options.Auth, Pepper: s.keys.pepper, Metrics: metrics,
	})
	if err != nil {
		return nil, err
	}
	server := g.Server(s.options.Addr)
	server.Handler = s.serveHub(server.Handler)
	if !s.options.Auth {
		server.Handler = checkHost(server.Handler)
	}
	edge, addr, err := app.Serve(ctx, server, g.Limit, g.Drain)
	if err != nil {
		return nil, err
	}
	return []service.Actor{{Name: "keys", Run: g.Run}, edge, s.announcer(addr, s.keys)}, nil
}

func (s *stack) state() (*rediscache.Store, error) {
	store, err := rediscache.Open(s.servers.redisURL)
	if err != nil {
		return nil, err
	}
	s.closing(func() { _ = store.Close() }) // nothing is buffered
	return store, nil
}
