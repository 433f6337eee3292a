package agentserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
)

// root is the folder that tasks never leave. It is opened once, and the folder of a task is opened below it at each call: what
// has taken its place since the task was accepted, such as a symbolic link, leads nowhere outside.
type root struct {
	dir  *os.Root // closed by the runtime, with the settings that hold it
	path string   // real path
}

func openRoot(path string) (root, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return root{}, fmt.Errorf("folder that tasks work in (AGENT_ROOT): %w", err)
	}
	dir, err := os.OpenRoot(resolved)
	if err != nil {
		return root{}, fmt.Errorf("folder that tasks work in (AGENT_ROOT): %w", err)
	}
	return root{dir: dir, path: resolved}, nil
}

// open opens the folder of a task, given by its real path.
func (r root) open(folder string) (*os.Root, error) {
	below, err := filepath.Rel(r.path, folder)
	if err != nil {
		return nil, fmt.Errorf("open the folder of a task: %w", err)
	}
	opened, err := r.dir.OpenRoot(below)
	if err != nil {
		return nil, apierr.Wrap(err, apierr.ToolError, "the folder that the task works in has been removed or replaced")
	}
	return opened, nil
}

// confined is a backend that starts in the folder of a task only while that is still the one that was accepted. A program that
// works there by the folder's path is not confined to it further: it has the rights of this process.
type confined struct{ backend backend.Backend }

// Start implements [backend.Backend].
func (c confined) Start(ctx context.Context, start backend.Start) (backend.Session, error) {
	if resolved, err := filepath.EvalSymlinks(start.Workspace); err != nil || resolved != start.Workspace {
		return nil, apierr.Wrap(err, apierr.AgentError, "the folder that the task works in has been removed or replaced")
	}
	return c.backend.Start(ctx, start)
}

// Unwrap gives the backend, for [backend.Find].
func (c confined) Unwrap() any { return c.backend }
