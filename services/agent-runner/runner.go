// Package agentrunner is the service that runs requests: it takes pointers from the work queue, claims their logs, and
// drives agents until each log has its terminal event. Any number of runners share the queue; when one crashes, another
// takes its requests over.
//
// Read run.go for one request, pkg/loop for the turns of an agent, pkg/transcript for the fold of a log,
// internal/reaper for requests without a runner, and backends.go for the list of backends.
package agentrunner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/threadqueue"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/services/agent-runner/internal/metrics"
	"github.com/agentbus/agentbus/services/agent-runner/internal/reaper"
)

// History lists the requests of a thread, and the open requests. It is implemented by historyapi.Client.
type History interface {
	reaper.History
	Transcript(ctx context.Context, q historyapi.TranscriptQuery) (historyapi.TranscriptAnswer, error)
}

// Actions caches the actions that wait for a client. A *rediscache.Store is one. The log is authoritative, so errors are
// only logged.
type Actions interface {
	PutActions(ctx context.Context, actions ...rediscache.Action) error
	DropActions(ctx context.Context, tenant string, actionIDs ...string) error
}

// Deps are the dependencies and settings of a runner.
type Deps struct {
	Bus      Bus
	History  History
	Actions  Actions
	Config   config.Config
	Specs    map[string]tool.Spec       // the server tools that agents may name
	Backends map[string]backend.Backend // by agent; nil = what [Backends] makes of Config and the environment
	Hub      remote.Hub                 // manages the remote agents; nil = no remote agents
	Log      *slog.Logger               // nil = slog's default
	Slots    int                        // requests at a time; 0 = 64
	Name     string                     // of this process, in claims; "" = the host's name
	Build    string                     // of this program, in claims
	Grace    time.Duration              // for running requests when the process ends; 0 = 25 s
	HandOver time.Duration              // of that, until they are handed over between two steps; 0 = 5 s
	Sweep    time.Duration              // between two sweeps over all open requests; 0 = 15 s
}

const (
	defaultSlots    = 64
	defaultGrace    = 25 * time.Second
	defaultHandOver = 5 * time.Second
	defaultSweep    = 15 * time.Second
)

// Runner runs requests. It is safe for concurrent use.
type Runner struct {
	deps         Deps
	agents       map[string]agent
	remotes      remotes
	toolsets     toolsets
	meters       *metrics.Meters
	customs      customSchemas
	backpressure backpressure
	slots        *slots
}

// New checks the configuration of the agents and returns a runner for them.
func New(d Deps) (*Runner, error) {
	d = d.withDefaults()
	if d.Backends == nil {
		backends, err := Backends(d.Config, os.Getenv, nil)
		if err != nil {
			return nil, err
		}
		d.Backends = backends
	}
	meters, err := metrics.New(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("metrics of the runner: %w", err)
	}
	schemas, err := newCustomSchemas(d.Config.Events)
	if err != nil {
		return nil, err
	}
	others, err := newRemotes(d)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		deps: d, meters: meters, customs: schemas, remotes: others, slots: newSlots(d.Slots),
		toolsets: newToolsets(), agents: make(map[string]agent, len(d.Config.Agents)),
	}
	for name, c := range d.Config.Agents {
		if r.agents[name], err = r.newAgent(name, c); err != nil {
			return nil, fmt.Errorf("agent %s: %w", name, err)
		}
		if _, priced := d.Config.Price(c.Model); !priced && c.Limits.Cost > 0 && c.CLI.UnitCost == 0 &&
			c.Backend != config.BackendClaude && c.Backend != config.BackendRemote {
			d.Log.Warn("the limit of cost of an agent has no effect without the price of its model", "agent", name, "model", c.Model)
		}
	}
	return r, nil
}

func (d Deps) withDefaults() Deps {
	if d.Log == nil {
		d.Log = slog.Default()
	}
	d.Slots = cmp.Or(d.Slots, defaultSlots)
	d.Grace = cmp.Or(d.Grace, defaultGrace)
	d.HandOver = cmp.Or(d.HandOver, defaultHandOver)
	d.Sweep = cmp.Or(d.Sweep, defaultSweep)
	if d.Name == "" {
		d.Name, _ = os.Hostname() // a claim without a name is still a claim
	}
	return d
}

// Run runs requests until ctx is done, and ends requests without a runner. Then it takes no more, and the running ones
// may end. After Deps.HandOver they are handed over to another runner at their next step boundary, and after Deps.Grace
// at once.
func (r *Runner) Run(ctx context.Context) error {
	var background sync.WaitGroup
	defer background.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background.Go(func() { r.reaper().Run(ctx) })
	background.Go(func() { r.backpressure.watch(ctx, r.deps.Bus.EventsFullness, r.deps.Log) })
	unmeasure, err := r.meters.Waiting(r.deps.Bus.QueueDepth)
	if err != nil {
		return fmt.Errorf("metrics of the queue: %w", err)
	}
	defer unmeasure()
	if len(r.deps.Config.MCP) > 0 {
		background.Go(func() { r.toolsets.watch(ctx, r.deps.Bus, r.deps.Log) })
		r.toolsets.wait(ctx)
	}
	r.logUnavailable(ctx)
	d, stop := newDrain(ctx, r.deps.HandOver, r.deps.Grace)
	defer stop()
	take := func(ctx context.Context, slots int) error {
		return r.deps.Bus.ConsumeRequests(ctx, slots, func(ctx context.Context, start record.Start) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(d.closed, cancel)() //nolint:contextcheck // d only signals
			return r.handle(ctx, d, start)
		})
	}
	var lent sync.WaitGroup
	defer lent.Wait()
	lent.Go(func() {
		r.slots.fill(ctx, func(ctx context.Context) {
			if err := take(ctx, 1); err != nil {
				r.deps.Log.WarnContext(ctx, "could not fetch a request for a lent slot", "error", err)
			}
		})
	})
	return take(ctx, r.deps.Slots)
}

func (r *Runner) queue() *threadqueue.Queue { return threadqueue.New(r.deps.Bus, r.deps.Bus.Now) }

func (r *Runner) reaper() *reaper.Reaper {
	return reaper.New(reaper.Deps{
		Bus: r.deps.Bus, History: r.deps.History, Requests: requests{r}, Queue: r.queue(),
		Count: r.meters.Reaped, Log: r.deps.Log, Every: r.deps.Sweep,
	})
}
