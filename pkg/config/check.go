package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/redact"
)

// The values of Agent.OnDisconnect.
const (
	OnDisconnectContinue = "continue"
	OnDisconnectAbort    = "abort"
)

// The values of Agent.OnBusy.
const (
	OnBusyReject    = "reject"
	OnBusyQueue     = "queue"
	OnBusyInterrupt = "interrupt"
)

// The values of Agent.RequestTools.
const (
	RequestToolsAllow  = "allow"
	RequestToolsRefuse = "refuse"
)

// The values of Agent.ToolOutput.
const (
	ToolOutputRefuse = "refuse"
	ToolOutputAllow  = "allow"
)

// The values of Agent.OnCrash.
const (
	OnCrashRestart = "restart"
	OnCrashError   = "error"
)

// The values of Agent.OnUnknown.
const (
	OnUnknownTell = "tell"
	OnUnknownAsk  = "ask"
)

// How many requests may wait on a thread.
const (
	DefaultQueue = 5
	MaxQueue     = 100
)

// checker finds what is well-formed and still wrong.
type checker struct {
	known   Known
	servers map[string]MCPServer // of the file
	base    map[string]Agent     // agents that the file is added to; nil = they are not known
	agents  map[string]Agent     // of the file
	*decoder
}

func (c checker) check(cfg Config) {
	tools := c.tools(cfg)
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		c.agent(join("agents", name), name, cfg.Agents[name], tools)
	}
	for name, m := range cfg.Models {
		c.price(join(join("models", name), "price"), m.Price)
		c.longPrompt(join(join("models", name), "price.longPrompt"), m.Price.LongPrompt)
		atLeastZero(c, join(join("models", name), "contextWindow"), m.ContextWindow)
	}
	for name, t := range cfg.Tools {
		c.tool(join("tools", name), name, t, tools)
	}
	for name, m := range cfg.MCP {
		c.mcp(join("mcp", name), name, m)
	}
	c.files(cfg.Files)
	c.sandbox(cfg.Sandbox)
	for name, e := range cfg.Events {
		c.event(join("events", name), name, e)
	}
	c.gateway(cfg.Gateway)
	c.hub(cfg.Hub)
	c.agentServer(cfg.AgentServer)
}

func (c checker) agent(path, name string, a Agent, tools []string) {
	if !id.Valid(name) {
		c.report(path, "the name of an agent has letters, digits, _ and - only, at most %d", id.MaxLength)
	}
	switch {
	case a.Backend != "":
		c.oneOf(join(path, "backend"), "backend", a.Backend, c.known.Backends)
	case !c.mistaken(path): // a misspelt "backend" is one mistake, not two
		c.report(path, "has no backend; add one, such as backend: scripted")
	}
	c.modelSettings(path, a)
	c.models(join(path, "models"), a)
	c.model(path, a)
	c.prompt(join(path, "system"), a.System)
	c.script(join(path, "script"), a)
	for i, t := range a.Tools {
		if !c.offered(t) {
			c.oneOf(fmt.Sprintf("%s.tools[%d]", path, i), "tool", t, tools)
		}
		if slices.Contains(a.Tools[:i], t) {
			c.report(fmt.Sprintf("%s.tools[%d]", path, i), "tool %q is in the list twice; remove one", t)
		}
		c.ownTool(fmt.Sprintf("%s.tools[%d]", path, i), t)
	}
	c.agentTools(path, name, a)
	for t, approval := range a.Approval {
		c.approval(join(join(path, "approval"), t), approval)
		called, _ := AgentOfTool(t)
		if t != AnyTool && !c.gives(a.Tools, t) && !slices.Contains(a.Agents, called) {
			c.report(join(join(path, "approval"), t), "%q is not one of this agent's tools; %s", t, cure(t, append(slices.Clone(a.Tools), AnyTool)))
		}
	}
	for i, t := range a.ClientTools {
		c.clientTool(fmt.Sprintf("%s.clientTools[%d]", path, i), t, a)
	}
	c.choice(join(path, "onDisconnect"), a.OnDisconnect, OnDisconnectContinue, OnDisconnectAbort)
	c.choice(join(path, "onBusy"), a.OnBusy, OnBusyReject, OnBusyQueue, OnBusyInterrupt)
	c.choice(join(path, "requestTools"), a.RequestTools, RequestToolsAllow, RequestToolsRefuse)
	c.choice(join(path, "toolOutput"), a.ToolOutput, ToolOutputRefuse, ToolOutputAllow)
	c.choice(join(path, "onCrash"), a.OnCrash, OnCrashRestart, OnCrashError)
	c.choice(join(path, "onUnknown"), a.OnUnknown, OnUnknownTell, OnUnknownAsk)
	atLeastZero(c, join(path, "queue"), a.Queue)
	if a.Queue > MaxQueue {
		c.report(join(path, "queue"), "must be at most %d; with a long queue, later requests are better rejected with thread_busy", MaxQueue)
	}
	atLeastZero(c, join(path, "thinking"), a.Thinking)
	atLeastZero(c, join(path, "maxTokens"), a.MaxTokens)
	atLeastZero(c, join(path, "limits.turns"), a.Limits.Turns)
	atLeastZero(c, join(path, "limits.tokens"), a.Limits.Tokens)
	atLeastZero(c, join(path, "limits.time"), a.Limits.Time)
	atLeastZero(c, join(path, "limits.depth"), a.Limits.Depth)
	if !(a.Limits.Cost >= 0) { // also finds NaN
		c.report(join(path, "limits.cost"), "must not be negative; leave it out for no limit")
	}
	atLeastZero(c, join(path, "contextWindow"), a.ContextWindow)
	if !(a.CompressAt >= 0 && a.CompressAt <= 1) { // also finds NaN
		c.report(join(path, "compressAt"), "must be a share of the context window from 0 to 1, such as 0.8")
	}
	atLeastZero(c, join(path, "actionTTL"), a.ActionTTL)
	c.program(path, a)
	c.upstream(path, a)
	c.remote(path, a)
	c.httpURL(join(path, "baseURL"), a.BaseURL)
	if strings.ContainsAny(a.APIKeyEnv, "= \n") || strings.HasPrefix(a.APIKeyEnv, "sk-") {
		c.report(join(path, "apiKeyEnv"), "is the name of an environment variable, never the key itself")
	}
}

func (c checker) mistaken(path string) bool {
	return slices.ContainsFunc(c.mistakes, func(m Mistake) bool { return m.Path == path || m.Path == join(path, "backend") })
}

func (c checker) clientTool(path string, t ClientTool, a Agent) {
	if !id.Valid(t.Name) {
		c.report(path, "needs a name of letters, digits, _ and - only, at most %d", id.MaxLength)
	}
	if slices.Contains(a.Tools, t.Name) {
		c.report(join(path, "name"), "%q is a server tool of this agent too; give one another name", t.Name)
	}
	c.ownTool(join(path, "name"), t.Name)
	if kind, ok := t.Schema["type"]; t.Schema != nil && (!ok || kind != "object") {
		c.report(join(path, "schema"), "must be a JSON Schema of an object; start it with type: object")
	}
}

// ownTool rejects the name of a built-in tool of the loop, whether the agent may use that or not: the loop would run
// its calls itself.
func (c checker) ownTool(path, name string) {
	var member string
	switch name {
	case "ask_user":
		member = "askUser"
	case "plan":
		member = "planning"
	case "final_answer":
		member = "finalAnswer"
	default:
		return
	}
	c.report(path, "%q is the name of a tool that agents have themselves; write %s: true for that, or give yours another name", name, member)
}

func (c checker) price(path string, p Price) {
	for name, v := range map[string]float64{
		"input": p.Input, "output": p.Output, "cachedInput": p.CachedInput, "cacheWrite": p.CacheWrite, "longPrompt.input": p.LongPrompt.Input,
		"longPrompt.output": p.LongPrompt.Output, "longPrompt.cachedInput": p.LongPrompt.CachedInput, "longPrompt.cacheWrite": p.LongPrompt.CacheWrite,
	} {
		if !(v >= 0 && v < 1e9) { // also finds NaN
			c.report(join(path, name), "must be a price in US dollars for a million tokens, 0 or more")
		}
	}
}

func (c checker) longPrompt(path string, p LongPrompt) {
	atLeastZero(c, join(path, "above"), p.Above)
	if p != (LongPrompt{}) && p.Above == 0 {
		c.report(path, "has no above; add from how many input tokens on the prices apply")
	}
}

// natsAgents checks the names that are parts of subjects, and the principal.
func (c checker) natsAgents(n NATSAgents) {
	const path = "gateway.natsAgents"
	atLeastZero(c, path+".heartbeat", n.Heartbeat)
	if n.Owner == "" && !n.isZero() {
		c.report(path, "has no owner; add the name that the subjects of the agents contain")
	}
	for key, name := range map[string]string{"owner": n.Owner, "session": n.Session, "tenant": n.Tenant} {
		if name != "" && !id.Valid(name) {
			c.report(join(path, key), "%q cannot be a name here: one is ^[A-Za-z0-9_-]{1,64}$", name)
		}
	}
	for i, name := range n.Agents {
		_, own := c.agents[name]
		if _, ok := c.base[name]; !own && !ok && c.base != nil {
			c.report(fmt.Sprintf("%s.agents[%d]", path, i), "there is no agent %q", name)
		}
	}
	if (n.Tenant == "") != (n.Subject == "") {
		c.report(path, "has tenant or subject; a principal needs both")
	}
}

func (c checker) gateway(g Gateway) {
	for i, origin := range g.CORS {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "") {
			c.report(fmt.Sprintf("gateway.cors[%d]", i), "%q is not an origin; write one such as https://app.example.com", origin)
		}
	}
	atLeastZero(c, "gateway.maxBody", g.MaxBody)
	atLeastZero(c, "gateway.sessions.maxBody", g.Sessions.MaxBody)
	if name := g.Sessions.Agent; name != "" && !id.Valid(name) {
		c.report("gateway.sessions.agent", "%q cannot be the name of an agent", name)
	}
	if at, err := url.Parse(g.Sessions.Share.Provider); g.Sessions.Share.Provider != "" &&
		(err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http") {
		c.report("gateway.sessions.share.provider",
			"%q is not a URL; write one such as https://share.example.com/upload", redact.URL(g.Sessions.Share.Provider))
	}
	for tenant := range g.Sessions.Workspaces {
		if !id.Valid(tenant) {
			c.report(join("gateway.sessions.workspaces", tenant), "no tenant can have this name: one is ^[A-Za-z0-9_-]{1,64}$")
		}
	}
	c.webhooks(g.Webhooks)
	c.natsAgents(g.NATSAgents)
	for i, p := range g.Identity {
		c.identity(fmt.Sprintf("gateway.identity[%d]", i), p)
	}
	atLeastZero(c, "gateway.heartbeat", g.Heartbeat)
	atLeastZero(c, "gateway.streamTimeout", g.StreamTimeout)
	atLeastZero(c, "gateway.admissionTimeout", g.AdmissionTimeout)
	atLeastZero(c, "gateway.limits.connections", g.Limits.Connections)
	atLeastZero(c, "gateway.limits.streams", g.Limits.Streams)
	atLeastZero(c, "gateway.limits.replays", g.Limits.Replays)
	atLeastZero(c, "gateway.limits.bodyTime", g.Limits.BodyTime)
	atLeastZero(c, "gateway.limits.sendTime", g.Limits.SendTime)
	atLeastZero(c, "gateway.limits.idleTime", g.Limits.IdleTime)
	atLeastZero(c, "gateway.quotas.tenantRequests", g.Quotas.TenantRequests)
	atLeastZero(c, "gateway.quotas.keyRequests", g.Quotas.KeyRequests)
	atLeastZero(c, "gateway.quotas.tenantBytes", g.Quotas.TenantBytes)
	atLeastZero(c, "gateway.quotas.keyBytes", g.Quotas.KeyBytes)
	c.rate("gateway.rateLimit", g.RateLimit)
}

func (c checker) rate(path string, r Rate) {
	atLeastZero(c, join(path, "requests"), r.Requests)
	atLeastZero(c, join(path, "per"), r.Per)
	atLeastZero(c, join(path, "burst"), r.Burst)
	if r.Requests > 0 && r.Per == 0 {
		c.report(path, "says how many requests and not per what; add per: 1m")
	}
}

// choice reports a value that is neither left out nor one of those that there are.
func (c checker) choice(path, value string, values ...string) {
	if value != "" {
		c.oneOf(path, "value", value, values)
	}
}

func (c checker) oneOf(path, what, value string, names []string) {
	if len(names) > 0 && !slices.Contains(names, value) {
		c.report(path, "unknown %s %q; %s", what, value, cure(value, names))
	}
}

func (c checker) httpURL(path, value string) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		c.report(path, "%q is not a URL; write one such as https://api.example.com/v1", redact.URL(value))
	}
}

// atLeastZero reports a number or duration below zero.
func atLeastZero[N ~int | ~int64](c checker, path string, value N) {
	if value < 0 {
		c.report(path, "must not be negative; leave it out for the default")
	}
}
