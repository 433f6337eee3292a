// Package agentrunner is the service that runs requests: it takes pointers from the work queue, claims their logs, and
// drives agents until each log has its terminal event. Any number of runners share the queue; when one dies, another
// takes its requests over where they stand.
//
// Read run.go for one request, internal/loop for the turns of an agent, internal/transcript for what a log says, and
// backends.go for the list of backends.
package agentrunner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/query"
	"github.com/agentbus/agentbus/pkg/state"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/services/agent-runner/internal/measure"
)

// Bus is the part of a *bus.Bus that a runner uses.
type Bus interface {
	Starts(ctx context.Context, slots int, handle bus.Handle[command.Start]) error
	Accepted(ctx context.Context, log bus.LogID) (command.Accepted, error)
	Claim(ctx context.Context, log bus.LogID, runner, build string, opening ...event.Body) (*bus.Writer, []event.Frame, error)
	Read(ctx context.Context, log bus.LogID, from uint64) iter.Seq2[event.Frame, error]
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error]
	Thread(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error)
	Aborted(ctx context.Context, log bus.LogID) (command.Abort, error)
	WatchAbort(ctx context.Context, log bus.LogID, found func(command.Abort)) (stop func(), err error)
	CallTool(ctx context.Context, toolset string, c command.ToolCall) error
	AwaitToolResult(ctx context.Context, log bus.LogID, toolCallID string, progress func(string)) (command.ToolResult, error)
	PutObject(ctx context.Context, data []byte) (event.ObjectRef, error)
	Object(ctx context.Context, ref event.ObjectRef) ([]byte, error)
}

// History knows the requests of a thread. A query.Client is one.
type History interface {
	Transcript(ctx context.Context, q query.TranscriptQuery) (query.TranscriptAnswer, error)
}

// Actions remembers, for speed, what waits for a client. A *state.Store is one. The log decides, so its errors are
// logged and change nothing.
type Actions interface {
	PutActions(ctx context.Context, actions ...state.Action) error
	DropActions(ctx context.Context, tenant string, actionIDs ...string) error
}

// Deps is what a runner is made of.
type Deps struct {
	Bus      Bus
	History  History
	Actions  Actions
	Config   config.Config
	Specs    map[string]tool.Spec       // the server tools that agents may name
	Backends map[string]backend.Backend // by agent; nil = what [Backends] makes of Config and the environment
	Log      *slog.Logger               // nil = slog's default
	Slots    int                        // requests at a time; 0 = 64
	Name     string                     // of this process, in claims; "" = the host's name
	Build    string                     // of this program, in claims
	Grace    time.Duration              // for running requests when the process ends; 0 = 25 s
}

const (
	defaultSlots = 64
	defaultGrace = 25 * time.Second
)

// Runner runs requests. It is safe for concurrent use.
type Runner struct {
	deps   Deps
	agents map[string]agent
	meters *measure.Meters
}

// New checks the configuration of the agents and returns a runner for them.
func New(d Deps) (*Runner, error) {
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Slots == 0 {
		d.Slots = defaultSlots
	}
	if d.Grace == 0 {
		d.Grace = defaultGrace
	}
	if d.Name == "" {
		d.Name, _ = os.Hostname() // a claim without a name is still a claim
	}
	if d.Backends == nil {
		backends, err := Backends(d.Config, os.Getenv)
		if err != nil {
			return nil, err
		}
		d.Backends = backends
	}
	meters, err := measure.New(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("metrics of the runner: %w", err)
	}
	r := &Runner{deps: d, meters: meters, agents: make(map[string]agent, len(d.Config.Agents))}
	for name, c := range d.Config.Agents {
		if r.agents[name], err = r.newAgent(name, c); err != nil {
			return nil, fmt.Errorf("agent %s: %w", name, err)
		}
	}
	return r, nil
}

// errDraining is why requests are cancelled that do not end in time when the process does.
var errDraining = errors.New("the runner is shutting down")

// Run runs requests until ctx is done, then lets those that run go on for Deps.Grace. What has not ended by then stays
// open, and another runner takes it over.
func (r *Runner) Run(ctx context.Context) error {
	drain, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(r.deps.Grace):
			cancel(errDraining)
		case <-drain.Done():
		}
	})
	defer stop()
	return r.deps.Bus.Starts(ctx, r.deps.Slots, func(ctx context.Context, start command.Start) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(drain, func() { cancel(context.Cause(drain)) })()
		return r.handle(ctx, cancel, start)
	})
}
