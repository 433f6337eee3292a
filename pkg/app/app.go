// Package app is what the main functions of the services have in common: it reads the environment, opens what every
// service needs, and runs the service until a signal comes. What a service consists of is written in its own
// services/<name>/cmd/main.go.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/sqldb"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Environment is the struct of a service in pkg/config/env.
type Environment interface{ Common() env.Process }

// Platform is the connections and telemetry that all services share.
type Platform struct {
	Name    string // of the service
	Environ env.Environ
	Bus     *bus.Bus // streams exist, or have been checked
	Log     *slog.Logger

	configFile string
}

// Tools returns the tools of a build for tests of faults, which are not in package builtin; none in other builds.
func (*Platform) Tools() []tool.Tool { return instrumentTools() }

// Specs adds the specs of [Platform.Tools] to specs, and returns it.
func (p *Platform) Specs(specs map[string]tool.Spec) map[string]tool.Spec {
	for _, t := range p.Tools() {
		specs[t.Spec().Name] = t.Spec()
	}
	return specs
}

// Config reads the configuration. Known are the backends and tools that agents may name; a service that runs neither does
// not check them.
func (p *Platform) Config(known config.Known) (config.Config, error) {
	base := config.Default(p.Environ.Get)
	if p.configFile == "" {
		return base, nil
	}
	for _, t := range p.Tools() {
		if len(known.Tools) > 0 { // an empty list allows every name
			known.Tools = append(known.Tools, t.Spec().Name)
		}
	}
	c, err := config.Load(p.configFile, base, known)
	if err != nil {
		return config.Config{}, err
	}
	if err := c.FitsRetention(p.Bus.MaxAge()); err != nil {
		return config.Config{}, fmt.Errorf("%s: %w", p.configFile, err)
	}
	return c, nil
}

// Build makes the parts of a service on a platform. Parts.Close closes them; the platform is closed afterwards.
type Build[E Environment] func(context.Context, *Platform, E) (service.Parts, error)

// Main is the main function of a service: it does what the arguments of the process ask for, see [Command], and ends the
// process with status 1 when something went wrong.
func Main[E Environment](name string, build Build[E]) {
	ctx, stop := service.Signals(context.Background())
	defer stop()
	if err := Command(ctx, name, os.Args[1:], os.Environ(), build); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing is deferred but stop
	}
}

// flushTime is how long the last spans and metrics may take on their way.
const flushTime = 3 * time.Second

// Run runs a service until ctx is done. environ is its environment, as os.Environ returns it.
func Run[E Environment](ctx context.Context, name string, environ []string, build Build[E]) error {
	vars, own, err := load[E](environ)
	if err != nil {
		return err
	}
	common := own.Common()
	log := newLogger(name, common)
	slog.SetDefault(log) // for libraries
	told, err := telemetry.Setup(ctx, telemetry.Options{Service: name, Version: service.Version()})
	if err != nil {
		return err
	}
	options := service.Options{Log: log, AdminAddr: common.AdminAddr, Metrics: told.Metrics, Profile: common.Profile, Grace: common.Grace}
	err = service.Run(ctx, options, func(ctx context.Context) (service.Parts, error) {
		p, err := open(ctx, name, vars, common, log)
		if err != nil {
			return service.Parts{}, err
		}
		parts, err := build(ctx, p, own)
		if err != nil {
			p.Bus.Close()
			return service.Parts{}, err
		}
		return p.under(parts), nil
	})
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	return errors.Join(err, told.Shutdown(flush))
}

// load reads the environment of a service, and its struct from it.
func load[E Environment](environ []string) (vars env.Environ, own E, err error) {
	vars, err = env.Read(environ)
	if err != nil {
		return nil, own, err
	}
	own, err = env.Load[E](vars)
	return vars, own, err
}

func newLogger(name string, common env.Process) *slog.Logger {
	return telemetry.NewLogger(os.Stderr, telemetry.LogOptions{
		Service: name, Level: common.LogLevel, Text: common.LogFormat == env.FormatText,
	})
}

// attemptTime bounds one attempt to connect to NATS, or to look after the streams.
const attemptTime = 10 * time.Second

// open connects to NATS and sees to the streams, for as long as that takes.
func open(ctx context.Context, name string, vars env.Environ, common env.Process, log *slog.Logger) (*Platform, error) {
	var b *bus.Bus
	err := service.Await(ctx, log, "nats", func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, attemptTime)
		defer cancel()
		b, err = bus.Connect(ctx, bus.Options{
			URL: common.NATSURL.Reveal(), Name: name, Prefix: common.Prefix,
			Credentials: bus.Credentials(common.NATSFiles),
			Instruments: instruments(),
		})
		return err
	}, bus.Final)
	if err != nil {
		return nil, err
	}
	err = service.Await(ctx, log, "streams", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, attemptTime)
		defer cancel()
		if common.Provision != env.ProvisionCreate {
			return b.Verify(ctx)
		}
		return b.Provision(ctx, bus.Storage{
			Replicas: common.Streams.Replicas, MaxAge: common.Streams.MaxAge, MaxBytes: common.Streams.MaxBytes,
			MaxQueue: common.Streams.MaxQueue, AckWait: common.Streams.AckWait,
		})
	}, bus.Final)
	if err != nil {
		b.Close()
		return nil, err
	}
	return &Platform{Name: name, Environ: vars, Bus: b, Log: log, configFile: common.ConfigFile}, nil
}

// AwaitDatabase calls try, which opens a database, until the database can be reached.
func (p *Platform) AwaitDatabase(ctx context.Context, try func(context.Context) error) error {
	return service.Await(ctx, p.Log, "database", try, func(err error) bool { return !sqldb.Unreachable(err) })
}

// under returns parts with the platform beneath them.
func (p *Platform) under(parts service.Parts) service.Parts {
	parts.Checks = append(parts.Checks, service.Check{Name: "nats", Ready: p.Bus.Ready})
	parts.Actors = append(parts.Actors, service.Actor{Name: "streams", Run: p.Bus.Watch})
	closeParts := parts.Close
	parts.Close = func() {
		if closeParts != nil {
			closeParts()
		}
		p.Bus.Close()
	}
	return parts
}
