package agentrunner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/contextvar"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	"github.com/agentbus/agentbus/pkg/transcript"
	jsonv2 "github.com/go-json-experiment/json"
)

// Defaults of the limits of agents.
const (
	defaultTurns      = 20
	defaultTime       = 10 * time.Minute
	programTurns      = 100 // of an agent that is a program: it takes many small ones
	programCost       = 10  // US dollars
	programTime       = time.Hour
	defaultActionTTL  = 24 * time.Hour
	defaultCompressAt = 0.8
)

// agent is a configured agent, ready to run.
type agent struct {
	loop.Agent
	backend    backend.Backend // nil for a remote agent until a request names its tenant
	remote     config.Remote
	script     string
	window     int64   // of the agent's configuration; 0 = the model's
	compressAt float64 // share of the window
}

func (r *Runner) newAgent(name string, c config.Agent) (agent, error) {
	b, ok := r.deps.Backends[name]
	if !ok {
		return agent{}, fmt.Errorf("it has no backend")
	}
	if c.Backend != config.BackendRemote { // see Runner.remoteBackend
		b = r.backpressure.wrap(r.meters.Backend(b, c.Backend))
	}
	tools, err := r.tools(c)
	if err != nil {
		return agent{}, err
	}
	options, err := c.Options.Event()
	if err != nil {
		return agent{}, err
	}
	limits := limitsOf(c)
	return agent{
		backend: b,
		remote:  c.Remote,
		script:  c.Script,
		window:  c.ContextWindow, compressAt: cmp.Or(c.CompressAt, defaultCompressAt),
		Agent: loop.Agent{
			Name: name, Model: c.Model, System: c.System, Tools: tools,
			MaxTokens: c.MaxTokens, Thinking: c.Thinking, Effort: c.Effort, Request: options, Fallback: c.Fallback,
			Turns: limits.Turns, Tokens: limits.Tokens, CostUSD: limits.Cost, Time: time.Duration(limits.Time),
			ActionTTL:   c.ActionTTL.Or(r.actionTTL()),
			FailOnCrash: c.OnCrash == config.OnCrashError, AskUnknown: c.OnUnknown == config.OnUnknownAsk,
		},
	}, nil
}

// actionTTL returns the default time for a client to act. It does not exceed the age of the stream, which holds what an action
// needs.
func (r *Runner) actionTTL() time.Duration {
	if age := r.deps.Bus.MaxAge(); age > 0 {
		return min(defaultActionTTL, age)
	}
	return defaultActionTTL
}

// limitsOf returns the limits of an agent's requests. Programs and remote agents always have a limit of turns and of cost.
func limitsOf(c config.Agent) config.Limits {
	limits := c.Limits
	if c.Backend == config.BackendRemote {
		limits.Turns, limits.Cost = cmp.Or(limits.Turns, remoteTurns), cmp.Or(limits.Cost, remoteCostUSD)
		limits.Time = config.Duration(limits.Time.Or(remoteTime))
		return limits
	}
	if c.RunsProgram() {
		limits.Turns, limits.Cost = cmp.Or(limits.Turns, programTurns), cmp.Or(limits.Cost, programCost)
		limits.Time = config.Duration(limits.Time.Or(programTime))
		return limits
	}
	limits.Turns, limits.Time = cmp.Or(limits.Turns, defaultTurns), config.Duration(limits.Time.Or(defaultTime))
	return limits
}

// tools returns the specs of all tools that the agent's model may call.
func (r *Runner) tools(c config.Agent) ([]tool.Spec, error) {
	tools := make([]tool.Spec, 0, len(c.Tools)+len(c.ClientTools)+3)
	for _, name := range builtin.Spread(c.Tools) {
		if _, _, ok := r.deps.Config.MCPTool(name); ok {
			continue // resolved when a request starts: see toolsets
		}
		spec, ok := r.deps.Specs[name]
		if !ok {
			return nil, fmt.Errorf("there is no tool %q", name)
		}
		spec.Approval = c.Approval.Of(name, spec.Approval)
		tools = append(tools, spec)
	}
	for _, name := range c.Agents {
		spec := builtin.AgentSpec(name, r.deps.Config.Agents[name])
		spec.Approval = c.Approval.Of(spec.Name, spec.Approval)
		tools = append(tools, spec)
	}
	for _, t := range c.ClientTools {
		schema := json.RawMessage(`{"type":"object"}`)
		if t.Schema != nil {
			text, err := jsonv2.Marshal(t.Schema, jsonv2.Deterministic(true))
			if err != nil {
				return nil, fmt.Errorf("schema of client tool %s: %w", t.Name, err)
			}
			schema = text
		}
		tools = append(tools, tool.Spec{Name: t.Name, Description: t.Description, Schema: schema, Client: true})
	}
	if c.AskUser {
		tools = append(tools, loop.AskUser())
	}
	if c.Planning {
		tools = append(tools, loop.Planning())
	}
	if c.FinalAnswer {
		tools = append(tools, loop.FinalAnswer())
	}
	return tools, nil
}

// options are the options of a backend: the agent's script, and the request's context.
type options struct {
	Script  string          `json:"script,omitempty"`
	Context json.RawMessage `json:"context,omitzero"`
}

// forRequest adapts an agent to one request. It refuses a model or tools that the agent does not allow: the service that
// accepted the request may have had another configuration.
func (r *Runner) forRequest(a agent, model string, settings transcript.Settings) (loop.Agent, error) {
	agent := a.Agent
	own, configured := r.deps.Config.Agents[agent.Name]
	if configured {
		if err := own.CheckModel("context.model", model); err != nil {
			return agent, err
		}
	}
	if len(settings.Tools) > 0 && (!configured || own.RequestTools == config.RequestToolsRefuse) {
		return agent, apierr.New(apierr.InvalidMessageFormat, "agent %s accepts no tools of requests; leave tools out", agent.Name)
	}
	agent.Tools = withRequestTools(slices.Concat(agent.Tools, r.toolsets.specsFor(r.deps.Config, agent.Name)), settings.Tools)
	agent.Model = cmp.Or(model, agent.Model)
	agent.System = instructions(agent.System, settings)
	window := cmp.Or(a.window, r.deps.Config.ContextWindow(agent.Model))
	agent.CompressAt = int64(a.compressAt * float64(window))
	agent.Request = agent.Request.Or(settings.Options)
	if most := settings.Options.MaxTokens; most > 0 && (agent.MaxTokens == 0 || most < agent.MaxTokens) {
		agent.MaxTokens = most
	}
	if c := settings.Options.ToolChoice; c != nil && c.Mode == event.ChooseTool &&
		!slices.ContainsFunc(agent.Tools, func(s tool.Spec) bool { return s.Name == c.Name }) {
		return agent, apierr.New(apierr.InvalidMessageFormat, "options.toolChoice.name %s is not the name of a tool of this request", c.Name)
	}
	text, err := jsonv2.Marshal(options{Script: a.script, Context: settings.Context})
	if err != nil {
		return agent, fmt.Errorf("options of the backend: %w", err)
	}
	agent.Options = text
	return agent, nil
}

// withRequestTools adds the tools of a request to those of the agent. A tool of the agent has priority over one with its
// name.
func withRequestTools(tools []tool.Spec, declared []event.RequestTool) []tool.Spec {
	for _, t := range declared {
		if slices.ContainsFunc(tools, func(s tool.Spec) bool { return s.Name == t.Name }) {
			continue
		}
		tools = append(tools, tool.Spec{Name: t.Name, Description: t.Description, Schema: t.Schema, Client: true})
	}
	return tools
}

// instructions returns the agent's instructions, with values of the request's context, and those of the request.
func instructions(system string, settings transcript.Settings) string {
	system = contextvar.Fill(system, settings.Context)
	if system == "" || settings.System == "" {
		return system + settings.System
	}
	return system + "\n\n" + settings.System
}

// price returns what an answer of a model costs, and whether the configuration has its price.
func (r *Runner) price(model string, usage event.Usage) (float64, bool) {
	price, ok := r.deps.Config.Price(model)
	return price.Cost(usage), ok
}
