package app

import (
	"context"

	"github.com/agentbus/agentbus/pkg/service"
)

// Run is Main without a process.
func Run[E Environment](ctx context.Context, name string, environ []string, build func(context.Context, *Platform, E) (service.Parts, error)) error {
	return run(ctx, name, environ, build)
}
