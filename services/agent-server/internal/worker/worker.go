// Package worker runs tasks: it drives the turn loop with an agent's backend and with tools in this process, and
// records the events. A task that was cut off by the end of the process continues, or ends, from the state of its
// record.
//
// Read task.go for how a task runs, recorder.go for how it is stored, tools.go for its tools.
package worker

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/limit"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/agentbus/agentbus/services/agent-server/internal/taskevents"
)

// Store keeps what tasks do.
type Store interface {
	Append(ctx context.Context, b store.Batch) error
	Log(ctx context.Context, sessionID string) (events []event.Event, last int64, err error)
	LastEvent(ctx context.Context, taskID string) (store.Event, error)
	Tail(ctx context.Context, taskID, name string) ([]store.Event, error)
	StartCall(ctx context.Context, taskID, callID string) (first bool, err error)
	PutObject(ctx context.Context, sessionID, objectID string, data []byte) error
	Object(ctx context.Context, sessionID, objectID string) ([]byte, error)
}

// Deps is what a worker works with.
type Deps struct {
	Store       Store
	Backend     backend.Backend
	Agent       loop.Agent // what every task starts from
	Limits      Limits
	Permissions Permissions
	CompressAt  float64 // share of the window
	Window      func(model string) int64
	Price       func(model string, usage event.Usage) (float64, bool)
	Script      string // that the scripted backend runs whatever the prompt says
	Tools       []tool.Tool
	FolderTools func(folder string) []tool.Tool // for the folder that a task works in; nil = none
	FailOnStop  bool                            // end a task that the end of the process cuts off; otherwise it continues at the next start
	Log         *slog.Logger
	Changed     func(taskID string) // called when something new of a task is stored
	Ended       func(ctx context.Context, task remoteagent.Task)
}

// Limits are the most that a task may ask for; 0 = no limit.
type Limits struct {
	Turns   int
	CostUSD float64
}

// Permissions are the permission modes of tasks.
type Permissions struct {
	Default remoteagent.PermissionMode // of a task that names none
	Max     remoteagent.PermissionMode // no task has more
}

// Mode returns the mode of a task that asks for asked; "" = for none.
func (p Permissions) Mode(asked remoteagent.PermissionMode) remoteagent.PermissionMode {
	mode := cmp.Or(asked, p.Default, remoteagent.PermitDefault)
	if mode.Exceeds(p.max()) {
		return p.max()
	}
	return mode
}

func (p Permissions) max() remoteagent.PermissionMode { return cmp.Or(p.Max, remoteagent.PermitAll) }

// Grants returns those of the names that a program may run without an approval. To a program a task's allowedTools are
// permissions, which are bounded as its mode is; nil = those of its mode alone, empty = the task has no tools.
func (p Permissions) Grants(names []string) []string {
	if p.max() == remoteagent.PermitAll || len(names) == 0 {
		return names
	}
	granted := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !taskevents.Reads(name) && (!taskevents.Edits(name) || p.max() != remoteagent.PermitEdits)
	})
	if len(granted) == 0 {
		return nil
	}
	return granted
}

// Default limits of a task (TARS hub protocol, assign_task).
const (
	defaultTurns   = 50
	defaultCostUSD = 5
)

// Worker runs tasks. It is safe for concurrent use.
type Worker struct {
	deps    Deps
	limiter *limit.Limiter
}

const (
	// places is how many calls of tools run at once, abandoned ones included.
	places = 64
	// defaultTimeout is how long a call may take whose tool does not say.
	defaultTimeout = time.Minute
	// defaultMaxOutput is how many bytes of a result the model reads, where the tool does not say.
	defaultMaxOutput = 1 << 20
)

// New returns a worker.
func New(deps Deps) *Worker { return &Worker{deps: deps, limiter: limit.New(places)} }
