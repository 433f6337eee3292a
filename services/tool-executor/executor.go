// Package toolexecutor is the service that runs tool calls: it takes them from the work queue, runs each within its
// limits, and writes its result once. Any number of executors share the queue; when one dies, another takes its calls,
// and never runs an unsafe one a second time.
//
// Read call.go for the course of one call and verdict.go for how it ends. The tools themselves are in pkg/tool; the list
// of the built-in ones is in pkg/tool/builtin.
package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	"github.com/agentbus/agentbus/pkg/tool/limit"
	"github.com/agentbus/agentbus/services/tool-executor/internal/metrics"
)

// Deps is what an executor is made of.
type Deps struct {
	Bus     Bus
	History Archive // nil = what the stream has forgotten is gone
	Config  config.Config
	Added   []tool.Tool                       // of the program; the configuration may change their settings
	Tools   []tool.Tool                       // in addition, with their settings; names must be unique
	Secret  func(name string) (string, error) // for secrets that the configuration refers to; nil = no secrets
	Log     *slog.Logger                      // nil = slog's default
	Slots   int                               // calls at a time; 0 = 32
	Name    string                            // of this process, in records; "" = the host's name
	Grace   time.Duration                     // for running calls when the process ends; 0 = 20 s
}

const (
	defaultSlots     = 32
	defaultGrace     = 20 * time.Second
	defaultTimeout   = time.Minute
	defaultMaxOutput = 1 << 20
)

// errDraining is why a call is cut off that outlasts the grace of a process about to end.
var errDraining = errors.New("the tool-executor is shutting down")

// Executor runs calls. It is safe for concurrent use.
type Executor struct {
	deps     Deps
	tools    map[string]tool.Tool
	sources  sources
	limiter  *limit.Limiter
	measure  *metrics.Instruments
	instance string       // names this process to other executors
	open     sync.Map     // the calls that are being handled, by tenant, request and id
	kept     atomic.Int64 // bytes of results that wait to be stored
}

// New returns an executor of the configured tools and those in deps. An error names what is wrong with the configuration
// or with a tool.
func New(deps Deps) (*Executor, error) {
	deps = deps.withDefaults()
	list, err := builtin.Tools(deps.Config, deps.Secret, deps.Added...)
	if err != nil {
		return nil, fmt.Errorf("configured tools: %w", err)
	}
	list = append(list, delegates(deps)...)
	tools, err := index(append(list, deps.Tools...))
	if err != nil {
		return nil, err
	}
	others, err := newSources(deps)
	if err != nil {
		return nil, err
	}
	instruments, err := metrics.New()
	if err != nil {
		return nil, fmt.Errorf("metrics of the tool-executor: %w", err)
	}
	// Twice the slots: a call that was abandoned keeps its place in the limiter, and frees its slot of the queue.
	return &Executor{deps: deps, tools: tools, sources: others, limiter: limit.New(2 * deps.Slots), measure: instruments, instance: id.New("exe")}, nil
}

func (d Deps) withDefaults() Deps {
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Slots == 0 {
		d.Slots = defaultSlots
	}
	if d.Secret == nil {
		d.Secret = func(name string) (string, error) { return "", fmt.Errorf("there is no secret %q", name) }
	}
	if d.History == nil {
		d.History = noArchive{}
	}
	if d.Grace == 0 {
		d.Grace = defaultGrace
	}
	if d.Name == "" {
		d.Name, _ = os.Hostname() // a record without a name still counts
	}
	return d
}

// index also finds a schema that cannot be read, before any call does.
func index(list []tool.Tool) (map[string]tool.Tool, error) {
	tools := make(map[string]tool.Tool, len(list))
	for _, t := range list {
		spec := t.Spec()
		if _, ok := tools[spec.Name]; ok {
			return nil, fmt.Errorf("two tools are called %q", spec.Name)
		}
		if _, err := tool.CompileSchema(spec); err != nil {
			return nil, err
		}
		tools[spec.Name] = t
	}
	return tools, nil
}

// Run works on calls until ctx is done. It then takes no more, gives the running ones Grace to finish, and cuts off the
// rest: safe ones go back to the queue, unsafe ones get the status unknown. It returns when all of them are settled; MCP
// servers stay connected until then.
func (e *Executor) Run(ctx context.Context) error {
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	var drain sync.WaitGroup
	defer drain.Wait()
	defer cut(nil)
	drain.Go(func() { e.sources.run(work, e.deps.Bus, e.deps.Log) })
	if deps := e.deps; deps.Config.Elicits() {
		drain.Go(func() {
			if err := e.serveOthers(work); err != nil {
				deps.Log.ErrorContext(ctx, "calls that ask the user cannot be continued by other executors", "error", err)
			}
		})
	}
	drain.Go(func() { // ends with work, at the latest when Run returns
		select {
		case <-ctx.Done():
		case <-work.Done():
			return
		}
		grace := time.NewTimer(e.deps.Grace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cut(errDraining)
		case <-work.Done():
		}
	})
	err := e.deps.Bus.ConsumeToolCalls(ctx, e.deps.Slots, func(ctx context.Context, call record.ToolCall) error {
		ctx, cancel := context.WithCancelCause(ctx) // carries the trace, and outlives the queue's
		defer cancel(nil)
		defer context.AfterFunc(work, func() { cancel(context.Cause(work)) })()
		return e.handle(ctx, call)
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("take tool calls: %w", err)
	}
	return nil
}
