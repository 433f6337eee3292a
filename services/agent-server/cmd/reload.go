package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

// notifyHangups catches SIGHUP from here on: it must not end a process that is about to serve.
func notifyHangups() <-chan os.Signal {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// reload reads the files of keys and of the certificate again at each hangup, until ctx is done. What is wrong in them
// changes nothing.
func reload(
	ctx context.Context, hangups <-chan os.Signal, server *agentserver.Server, c *service.Certificate, log *slog.Logger,
) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
		}
		if err := reloadOnce(ctx, server, c); err != nil {
			log.ErrorContext(ctx, "nothing was reloaded", "error", err)
			continue
		}
		log.InfoContext(ctx, "keys and certificate were reloaded")
	}
}

func reloadOnce(ctx context.Context, server *agentserver.Server, c *service.Certificate) error {
	vars, err := env.Read(os.Environ())
	if err != nil {
		return err
	}
	if c != nil {
		if err := c.Load(); err != nil {
			return err
		}
	}
	return server.Reload(ctx, agentserver.SplitKeys(env.Secret(vars.Get("AGENT_KEYS"))))
}
