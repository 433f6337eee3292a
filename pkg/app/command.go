package app

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/bus/permissions"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
)

// The arguments of a service. Without one it runs.
const (
	ArgReady = "ready" // ask the process that runs in this container whether it is ready
	ArgSetup = "setup" // create or change the streams, bring the tables up to date, and end
)

// Command does what the arguments of a service's process ask for: run the service, [Setup] or [Ready].
func Command[E Environment](ctx context.Context, name string, args, environ []string, build Build[E]) error {
	switch {
	case len(args) == 0:
		return Run(ctx, name, environ, build)
	case len(args) == 1 && args[0] == ArgReady:
		return Ready[E](ctx, environ)
	case len(args) == 1 && args[0] == ArgSetup:
		return Setup(ctx, name, environ, build)
	default:
		return fmt.Errorf("unknown arguments %q; use %s, %s or none", args, ArgReady, ArgSetup)
	}
}

// Ready returns nil if the service that runs with this environment on this machine is ready. It is for health checks of
// containers, whose images have no other program.
func Ready[E Environment](ctx context.Context, environ []string) error {
	_, own, err := load[E](environ)
	if err != nil {
		return err
	}
	return service.AskReady(ctx, own.Common().AdminAddr)
}

// Setup prepares what the service uses and ends: it creates or changes the streams, as with NATS_PROVISION=create, and builds
// the parts, which brings the tables of a database up to date. It waits for NATS and the database. It is for a job of a
// deployment whose services have NATS_PROVISION=verify.
func Setup[E Environment](ctx context.Context, name string, environ []string, build Build[E]) error {
	vars, own, err := load[E](environ)
	if err != nil {
		return err
	}
	common := own.Common()
	common.Provision = env.ProvisionCreate
	log := newLogger(name, common)
	p, err := open(ctx, string(permissions.Provision), vars, common, log) // the user of NATS that may create streams
	if err != nil {
		return err
	}
	p.Name = name
	parts, err := build(ctx, p, own)
	if err != nil {
		p.Bus.Close()
		return err
	}
	p.under(parts).Close()
	log.InfoContext(ctx, "the streams and the tables are as this version needs them")
	return nil
}
