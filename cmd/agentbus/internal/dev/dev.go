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
	"sync/atomic"
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
	// Reloaded is called after each change of ConfigFile, with the agents of the new configuration, or with the reason why the
	// earlier one stays.
	Reloaded func(agents []string, err error)
}

// Info describes a running stack to the user.
type Info struct {
	URL    string // of the gateway
	NATS   string
	Data   string // "" = data is in memory
	Config string // file of the configuration; "" = none
	Agents []string
	Key    string // an API key, if keys are required
}

const (
	// grace limits the time of a stop, because a user waits for it. It is longer than the 5 s for which net/http waits for the
	// first request of a connection that a client has opened ahead.
	grace = 15 * time.Second
	// workGrace limits the time of the work in progress.
	workGrace = 2 * time.Second
)

// Run runs all services until ctx is done.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	cfg, err := o.load()
	if err != nil {
		return err
	}
	return service.Run(ctx, service.Options{Log: o.Log, Grace: grace}, func(ctx context.Context) (service.Parts, error) {
		s := &stack{options: o}
		parts, err := s.build(ctx, cfg)
		if err != nil {
			s.close()
			return service.Parts{}, err
		}
		return parts, nil
	})
}

// Known describes what the configuration of a stack may use, with the secrets of the environment.
func Known(x app.Extensions, getenv func(string) string) config.Known {
	known, secret := x.Known(), env.Secrets(getenv)
	known.Secret = func(name string) error {
		_, err := secret(name)
		return err
	}
	return known
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
	options   Options
	servers   servers
	data      *datadir.Dir // nil = data is in memory
	keys      credentials  // if keys are required
	hub       http.Handler
	drainHub  func()
	retention time.Duration // of the streams
	closers   []func()

	// What every generation of the services uses, and the current one.
	executorBus, runnerBus, gatewayBus *bus.Bus
	state                              *rediscache.Store
	current                            atomic.Pointer[generation]
}

func (s *stack) closing(f func()) { s.closers = append(s.closers, f) }

func (s *stack) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
	s.closers = nil
}

func (s *stack) build(ctx context.Context, cfg config.Config) (service.Parts, error) {
	if err := s.openServers(ctx); err != nil {
		return service.Parts{}, err
	}
	if err := s.openShared(ctx); err != nil {
		return service.Parts{}, err
	}
	actors := []service.Actor{{Name: "redis clock", Run: s.servers.keepTime}}
	for _, part := range []func(context.Context, config.Config) ([]service.Actor, error){
		s.history, s.credentials, s.startHub, s.services,
	} {
		more, err := part(ctx, cfg)
		if err != nil {
			return service.Parts{}, err
		}
		actors = append(actors, more...)
	}
	return service.Parts{Actors: actors, Close: s.close}, nil
}

// openShared opens what every generation of the services uses.
func (s *stack) openShared(ctx context.Context) (err error) {
	for name, b := range map[string]**bus.Bus{"tool-executor": &s.executorBus, "agent-runner": &s.runnerBus, "gateway": &s.gatewayBus} {
		if *b, err = s.connect(ctx, name); err != nil {
			return err
		}
	}
	s.retention = s.gatewayBus.MaxAge()
	if s.state, err = rediscache.Open(s.servers.redisURL); err != nil {
		return err
	}
	s.closing(func() { _ = s.state.Close() }) // nothing is buffered
	if s.servers.redis != nil {
		return nil
	}
	return service.Await(ctx, s.options.Log, "redis", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, attemptTime)
		defer cancel()
		return s.state.Ping(ctx)
	}, nil)
}

// attemptTime limits an attempt to reach a server. A user waits for the first report.
const attemptTime = 2 * time.Second

// connect opens a separate connection for each service, as in production.
func (s *stack) connect(ctx context.Context, name string) (*bus.Bus, error) {
	o := bus.Options{URL: s.options.NATS, Name: name}
	if s.servers.nats != nil {
		o.InProcess, o.URL = s.servers.nats, s.servers.nats.URL()
	}
	var b *bus.Bus
	err := service.Await(ctx, s.options.Log, "nats", func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, attemptTime)
		defer cancel()
		b, err = bus.Connect(ctx, o)
		return err
	}, bus.Final)
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
	return b, nil
}

func (s *stack) log(name string) *slog.Logger { return s.options.Log.With("service", name) }

func (s *stack) history(ctx context.Context, _ config.Config) ([]service.Actor, error) {
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

func (s *stack) toolExecutor(g *generation) error {
	b := s.executorBus
	x, err := toolexecutor.New(toolexecutor.Deps{
		Bus: toolexecutor.BusOf(b), History: historyapi.NewClient(b), Config: g.config,
		Added: s.options.Extensions.Tools, Tools: builtin.HubTools(g.config, hubapi.NewClient(b)),
		Secret: env.Secrets(s.options.Getenv), Log: s.log("tool-executor"), Grace: workGrace,
	})
	if err != nil {
		return err
	}
	g.actors = append(g.actors, service.Actor{Name: "tool-executor", Run: x.Run})
	return nil
}

func (s *stack) agentRunner(g *generation) error {
	b := s.runnerBus
	backends, err := agentrunner.Backends(g.config, s.options.Getenv, s.options.Extensions.Backends)
	if err != nil {
		return err
	}
	r, err := agentrunner.New(agentrunner.Deps{
		Bus: agentrunner.BusOf(b), History: historyapi.NewClient(b), Actions: s.state, Config: g.config,
		Specs:    builtin.WithHub(g.config, builtin.Specs(g.config, s.options.Extensions.Tools...)),
		Backends: backends, Hub: hubapi.NewClient(b), Log: s.log("agent-runner"), Build: service.Version(), Grace: workGrace,
	})
	if err != nil {
		return err
	}
	g.actors = append(g.actors, service.Actor{Name: "agent-runner", Run: r.Run})
	return nil
}

func (s *stack) gateway(g *generation) error {
	metrics := s.options.Metrics
	if s.options.Auth {
		metrics = nil // the address may be public, and scrapers have no key
	}
	made, err := gateway.New(gateway.Deps{
		Bus: s.gatewayBus, History: historyapi.NewClient(s.gatewayBus), State: s.state, Config: g.config, Log: s.log("gateway"),
		AuthRequired: s.options.Auth, Pepper: s.keys.pepper, Metrics: metrics, Secret: env.Secrets(s.options.Getenv),
	})
	if err != nil {
		return err
	}
	g.gateway, g.handler = made, made.Handler()
	g.actors = append(g.actors, service.Actor{Name: "keys", Run: made.Run})
	return nil
}

// services starts the first generation, and the HTTP server for all of them.
func (s *stack) services(ctx context.Context, cfg config.Config) ([]service.Actor, error) {
	first, err := s.newGeneration(cfg)
	if err != nil {
		return nil, err
	}
	s.current.Store(first)
	server := first.gateway.Server(s.options.Addr)
	server.Handler = s.serveHub(s)
	if !s.options.Auth {
		server.Handler = checkHost(server.Handler)
	}
	edge, addr, err := app.Serve(ctx, server, first.gateway.Limit, func() {
		s.drain()
		s.drainHub()
	})
	if err != nil {
		return nil, err
	}
	return []service.Actor{{Name: "services", Run: s.runGenerations}, edge, s.announcer(addr)}, nil
}
