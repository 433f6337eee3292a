package agentserver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/loop"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	"github.com/agentbus/agentbus/pkg/tool/files"
	"github.com/agentbus/agentbus/services/agent-server/internal/worker"
)

var errDiskFull = errors.New("the disk of DATA_DIR is nearly full")

// Settings are the environment and the configuration file in one.
type Settings struct {
	DataDir      string
	ID, Name     string
	URL          string // where the hub reaches the agent
	Hub, Token   string
	Capabilities []string
	Keys         []string

	BackendName string
	Backend     backend.Backend
	Agent       loop.Agent
	Limits      worker.Limits
	Permissions worker.Permissions
	Script      string
	CompressAt  float64
	CheckModel  func(model string) error // refuses a model that a task may not name
	Window      func(model string) int64
	Price       func(model string, usage event.Usage) (float64, bool)
	Tools       []tool.Tool
	FolderTools func(folder string) []tool.Tool
	toolServers toolServers
	OpenFolder  func(folder string) (*os.Root, error) // of a task; nil = without a root

	Root      string
	Places    int
	Queue     int
	Resume    bool
	Grace     time.Duration
	Rate      Rate
	MaxBody   int64
	Heartbeat time.Duration
	Probe     time.Duration // between two questions to the provider of the model
	Keep      Keep
}

// Rate is how often a key may ask.
type Rate struct {
	Requests int
	Per      time.Duration
	Burst    int
}

// Keep says how long things are kept: tasks after their end, sessions after their last use, and that there was a task.
type Keep struct{ Tasks, Sessions, Tombstones time.Duration }

const (
	day          = 24 * time.Hour
	defaultTime  = 2 * time.Hour // of a task
	defaultBody  = 1 << 20
	defaultProbe = time.Minute
	defaultShare = 0.8 // of the context window, from which on older turns are summarised
)

// NewSettings combines the configuration of an agent-server. The environment has priority. Getenv returns the keys of
// providers, secret the secrets that tools of the configuration refer to.
func NewSettings(
	e env.AgentServer, cfg config.Config, getenv func(string) string, secret func(string) (string, error),
) (Settings, error) {
	c := cfg.AgentServer
	name, agent, err := choose(e, cfg)
	if err != nil {
		return Settings{}, err
	}
	s := Settings{
		DataDir: e.DataDir, URL: cmp.Or(e.URL, c.URL), Hub: cmp.Or(e.HubURL, c.Hub), Token: e.Token.Reveal(),
		Capabilities: append([]string{}, c.Capabilities...), Keys: SplitKeys(e.Keys),
		BackendName: agent.Backend, Script: agent.Script, CompressAt: cmp.Or(agent.CompressAt, defaultShare),
		Window: func(model string) int64 { return cmp.Or(agent.ContextWindow, cfg.ContextWindow(model)) },
		Root:   cmp.Or(e.Root, c.Root), Places: cmp.Or(c.Places, 1), Queue: c.Queue, Resume: c.OnCrash == config.OnCrashResume,
		Grace: e.TaskGrace(), MaxBody: cmp.Or(c.MaxBody, defaultBody), Heartbeat: c.Heartbeat.Or(remoteagent.HeartbeatEvery), Probe: defaultProbe,
		Keep: Keep{c.Keep.Tasks.Or(7 * day), c.Keep.Sessions.Or(30 * day), c.Keep.Tombstones.Or(365 * day)},
		Rate: Rate{Requests: 600, Per: time.Minute, Burst: 600},
	}
	if c.RateLimit.Requests > 0 {
		s.Rate = Rate{c.RateLimit.Requests, c.RateLimit.Per.Or(time.Minute), cmp.Or(c.RateLimit.Burst, c.RateLimit.Requests)}
	}
	if err := s.identify(e, c); err != nil {
		return Settings{}, err
	}
	if err := s.permit(e, c); err != nil {
		return Settings{}, err
	}
	if agent.Backend == config.BackendRemote {
		return Settings{}, fmt.Errorf("agent %q runs at another agent-server, and this one cannot give it tasks; set AGENT_BACKEND to one of %s",
			name, strings.Join(BackendNames(), ", "))
	}
	if s.Backend, err = newBackend(agent, getenv); err != nil {
		return Settings{}, err
	}
	s.Price = price(cfg)
	s.CheckModel = func(model string) error { return agent.CheckModel("model", model) }
	options, err := agent.Options.Event()
	if err != nil {
		return Settings{}, err
	}
	s.Limits = worker.Limits{Turns: agent.Limits.Turns, CostUSD: agent.Limits.Cost}
	s.Agent = loop.Agent{
		Name: name, Model: agent.Model, System: agent.System, MaxTokens: agent.MaxTokens, Thinking: agent.Thinking,
		Effort: agent.Effort, Request: options, Fallback: agent.Fallback,
		Tokens: agent.Limits.Tokens, Time: agent.Limits.Time.Or(defaultTime), ActionTTL: agent.ActionTTL.Or(day),
	}
	return s, s.equip(cfg, agent, secret)
}

// choose gives the agent that runs tasks: the one that the file names, or one for the backend that the environment names.
func choose(e env.AgentServer, cfg config.Config) (name string, agent config.Agent, err error) {
	name = cfg.AgentServer.Agent
	if name != "" {
		agent, ok := cfg.Agents[name]
		if !ok {
			return "", agent, fmt.Errorf("agentServer.agent: there is no agent %q; there are %s",
				name, strings.Join(slices.Sorted(maps.Keys(cfg.Agents)), ", "))
		}
		if e.Backend != "" && e.Backend != agent.Backend {
			return "", agent, fmt.Errorf("AGENT_BACKEND is %q, and agent %q has the backend %q; leave one of them out",
				e.Backend, name, agent.Backend)
		}
		return name, agent, nil
	}
	if e.Backend == "" {
		return "", agent, fmt.Errorf("nothing says what runs the tasks; set AGENT_BACKEND to one of %s, or name an agent of the "+
			"configuration file in agentServer.agent", strings.Join(BackendNames(), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		if cfg.Agents[name].Backend == e.Backend {
			return name, cfg.Agents[name], nil
		}
	}
	if demo := config.Demo(); demo.Backend == e.Backend { // the operator asks for it by its backend
		return config.DefaultAgent, demo, nil
	}
	return e.Backend, config.Agent{Backend: e.Backend}, nil
}

// identify gives the agent its names. Without any it is called as its machine is.
func (s *Settings) identify(e env.AgentServer, c config.AgentServer) error {
	s.ID = cmp.Or(e.ID, c.ID)
	if s.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("the machine has no name; set AGENT_ID: %w", err)
		}
		s.ID = strings.Map(func(r rune) rune {
			if id.Valid(string(r)) {
				return r
			}
			return '-'
		}, host)
		s.ID = s.ID[:min(len(s.ID), id.MaxLength)]
	}
	if !id.Valid(s.ID) {
		return fmt.Errorf("AGENT_ID %.64q has letters, digits, _ and - only, at most %d", s.ID, id.MaxLength)
	}
	s.Name = cmp.Or(e.Name, c.Name, s.ID)
	if s.Root != "" {
		root, err := filepath.Abs(s.Root)
		if err != nil {
			return fmt.Errorf("AGENT_ROOT: %w", err)
		}
		s.Root = root
	}
	if s.Token != "" && s.URL == "" {
		return fmt.Errorf("HUB_TOKEN is set and AGENT_URL is not; set it to the address at which the hub reaches this agent")
	}
	return nil
}

// permit sets the permission modes of tasks.
func (s *Settings) permit(e env.AgentServer, c config.AgentServer) error {
	s.Permissions = worker.Permissions{
		Default: remoteagent.PermissionMode(cmp.Or(e.PermissionMode, c.PermissionMode, string(remoteagent.PermitDefault))),
		Max:     remoteagent.PermissionMode(cmp.Or(e.MaxPermissionMode, c.MaxPermissionMode, string(remoteagent.PermitAll))),
	}
	for name, mode := range map[string]remoteagent.PermissionMode{
		"AGENT_PERMISSION_MODE": s.Permissions.Default, "AGENT_MAX_PERMISSION_MODE": s.Permissions.Max,
	} {
		if !slices.Contains(remoteagent.PermissionModes(), mode) {
			return fmt.Errorf("%s %.40q is not one of %q", name, mode, remoteagent.PermissionModes())
		}
	}
	if s.Permissions.Default.Exceeds(s.Permissions.Max) {
		return fmt.Errorf("the permission mode of tasks, %s, is more than the maximum, %s; lower AGENT_PERMISSION_MODE or raise "+
			"AGENT_MAX_PERMISSION_MODE", s.Permissions.Default, s.Permissions.Max)
	}
	return nil
}

// equip gives the agent the tools that the configuration lists for it, and a root's folders the tools for files.
func (s *Settings) equip(cfg config.Config, agent config.Agent, secret func(string) (string, error)) error {
	all, err := builtin.Tools(cfg, secret)
	if err != nil {
		return err
	}
	for _, t := range all {
		spec := t.Spec()
		if !slices.Contains(agent.Tools, spec.Name) {
			continue
		}
		spec.Approval = agent.Approval.Of(spec.Name, spec.Approval)
		s.Tools, s.Agent.Tools = append(s.Tools, t), append(s.Agent.Tools, spec)
	}
	if agent.AskUser {
		s.Agent.Tools = append(s.Agent.Tools, loop.AskUser())
	}
	if agent.Planning {
		s.Agent.Tools = append(s.Agent.Tools, loop.Planning())
	}
	if agent.FinalAnswer {
		s.Agent.Tools = append(s.Agent.Tools, loop.FinalAnswer())
	}
	if s.toolServers, err = newToolServers(cfg, agent, secret); err != nil {
		return err
	}
	s.FolderTools = func(string) []tool.Tool { return s.toolServers.tools() }
	if s.Root == "" {
		return nil
	}
	root, err := openRoot(s.Root)
	if err != nil {
		return err
	}
	s.Backend = confined{s.Backend}
	s.OpenFolder = root.open
	s.FolderTools = func(folder string) []tool.Tool {
		o := files.Options{Open: func() (*os.Root, error) { return root.open(folder) }}
		return slices.Concat(files.Reading(o), files.Writing(o), s.toolServers.tools())
	}
	return nil
}

// price returns what an answer of a model costs, and whether the configuration has its price.
func price(cfg config.Config) func(string, event.Usage) (float64, bool) {
	return func(model string, usage event.Usage) (float64, bool) {
		price, ok := cfg.Price(model)
		return price.Cost(usage), ok
	}
}

// SplitKeys gives the keys of AGENT_KEYS, in their order.
func SplitKeys(keys env.Secret) []string {
	var all []string
	for key := range strings.FieldsFuncSeq(keys.Reveal(), func(r rune) bool { return r == ',' || r == '\n' || r == '\r' || r == ' ' }) {
		all = append(all, key)
	}
	return all
}
