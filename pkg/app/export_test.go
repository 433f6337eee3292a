package app

import (
	"context"
)

// Run is Main without a process.
func Run[E Environment](ctx context.Context, name string, environ []string, build Build[E]) error {
	return run(ctx, name, environ, build)
}
