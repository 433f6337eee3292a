// Command agent-server serves an agent on another machine. Its environment is env.AgentServer.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/sandbox"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

const name = "agent-server"

// flushTime is how long the last metrics may take on their way.
const flushTime = 3 * time.Second

func main() {
	sandbox.Enter()
	ctx, stop := service.Signals(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing is deferred but stop
	}
}

// run serves, or with the argument "ready" asks the process that serves whether it is ready.
func run(ctx context.Context, args []string) error {
	vars, err := env.Read(os.Environ())
	if err != nil {
		return err
	}
	own, err := env.Load[env.AgentServer](vars)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == app.ArgReady:
		return service.AskReady(ctx, own.AdminAddr)
	case len(args) > 0:
		return fmt.Errorf("unknown arguments %q; the only one is %s", args, app.ArgReady)
	}
	log := telemetry.NewLogger(os.Stderr, telemetry.LogOptions{
		Service: name, Level: own.LogLevel, Text: own.LogFormat == env.FormatText,
	})
	slog.SetDefault(log) // for libraries
	told, err := telemetry.Setup(ctx, telemetry.Options{Service: name, Version: service.Version()})
	if err != nil {
		return err
	}
	options := service.Options{Log: log, AdminAddr: own.AdminAddr, Metrics: told.Metrics, Profile: own.Profile, Grace: own.Grace}
	err = service.Run(ctx, options, func(ctx context.Context) (service.Parts, error) { return build(ctx, vars, own, log) })
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	return errors.Join(err, told.Shutdown(flush))
}

func build(ctx context.Context, vars env.Environ, own env.AgentServer, log *slog.Logger) (service.Parts, error) {
	cfg := config.Default(vars.Get)
	if own.ConfigFile != "" {
		var err error
		known := config.Known{Backends: append(agentserver.BackendNames(), config.BackendRemote), Tools: builtin.Names()}
		if cfg, err = config.Load(own.ConfigFile, cfg, known); err != nil {
			return service.Parts{}, err
		}
	}
	settings, err := agentserver.NewSettings(own, cfg, vars.Get, env.Secrets(vars.Get))
	if err != nil {
		return service.Parts{}, err
	}
	server, err := agentserver.New(ctx, settings, log)
	if err != nil {
		return service.Parts{}, err
	}
	hangups := notifyHangups()
	edge, err := listen(ctx, own, server, log)
	if err != nil {
		return service.Parts{}, errors.Join(err, server.Close())
	}
	return service.Parts{
		Actors: []service.Actor{
			{Name: "tasks", Run: server.Run},
			{Name: "reload", Run: func(ctx context.Context) error { return reload(ctx, hangups, server, edge.certificate, log) }},
			{Name: "http", Run: edge.run},
		},
		Checks: []service.Check{{Name: "store", Ready: server.Ready}},
		Close: func() {
			if err := server.Close(); err != nil {
				log.Error("close the store", "error", err)
			}
		},
	}, nil
}
