package config

import "github.com/agentbus/agentbus/pkg/id"

// AgentServer configures the agent of the agent-server, and how it runs tasks (TARS hub protocol, Remote Agent Server).
type AgentServer struct {
	Agent             string   `yaml:"agent"` // of agents: what runs the tasks
	ID                string   `yaml:"id"`    // of the agent, at the hub; default: the name of the machine
	Name              string   `yaml:"name"`  // for people; default: the id
	URL               string   `yaml:"url"`   // where the hub reaches the agent
	Hub               string   `yaml:"hub"`   // address of the hub; empty = no hub
	Capabilities      []string `yaml:"capabilities"`
	Root              string   `yaml:"root"`              // folder that tasks never leave; none = they may work anywhere
	PermissionMode    string   `yaml:"permissionMode"`    // of tasks that name none: default, acceptEdits or bypassPermissions
	MaxPermissionMode string   `yaml:"maxPermissionMode"` // a task that asks for more is refused; default bypassPermissions
	Places            int      `yaml:"places"`            // tasks at a time; default 1
	Queue             int      `yaml:"queue"`             // tasks that may wait; default 0: another one is refused
	OnCrash           string   `yaml:"onCrash"`           // fail (default) or resume, when the process ends while a task runs
	MaxBody           int64    `yaml:"maxBody"`           // bytes of a request; default 1 MiB
	RateLimit         Rate     `yaml:"rateLimit"`         // for each key; default 600 a minute
	Heartbeat         Duration `yaml:"heartbeat"`         // to the hub; default 30s
	Keep              Keep     `yaml:"keep"`
}

// Keep says how long an agent-server keeps things.
type Keep struct {
	Tasks      Duration `yaml:"tasks"`      // after their end; default 168h
	Sessions   Duration `yaml:"sessions"`   // after their last use; default 720h
	Tombstones Duration `yaml:"tombstones"` // that say that there was a task; default 8760h
}

// The values of AgentServer.OnCrash.
const (
	OnCrashFail   = "fail"
	OnCrashResume = "resume"
)

// maxPlaces is how many tasks an agent-server may run at one time, and how many may wait.
const maxPlaces = 1000

func (a AgentServer) isZero() bool {
	return a.Agent == "" && a.ID == "" && a.Name == "" && a.URL == "" && a.Hub == "" && len(a.Capabilities) == 0 && a.Root == "" &&
		a.Places == 0 && a.Queue == 0 && a.OnCrash == "" && a.MaxBody == 0 && a.RateLimit == Rate{} && a.Heartbeat == 0 &&
		a.Keep == Keep{} && a.PermissionMode == "" && a.MaxPermissionMode == ""
}

func (c checker) agentServer(a AgentServer) {
	if a.ID != "" && !id.Valid(a.ID) {
		c.report("agentServer.id", "has letters, digits, _ and - only, at most %d", id.MaxLength)
	}
	c.httpURL("agentServer.url", a.URL)
	c.httpURL("agentServer.hub", a.Hub)
	c.choice("agentServer.onCrash", a.OnCrash, OnCrashFail, OnCrashResume)
	for name, mode := range map[string]string{"permissionMode": a.PermissionMode, "maxPermissionMode": a.MaxPermissionMode} {
		c.choice("agentServer."+name, mode, "default", "acceptEdits", "bypassPermissions")
	}
	atLeastZero(c, "agentServer.places", a.Places)
	atLeastZero(c, "agentServer.queue", a.Queue)
	if max(a.Places, a.Queue) > maxPlaces {
		c.report("agentServer", "places and queue are at most %d", maxPlaces)
	}
	atLeastZero(c, "agentServer.maxBody", a.MaxBody)
	atLeastZero(c, "agentServer.heartbeat", a.Heartbeat)
	c.rate("agentServer.rateLimit", a.RateLimit)
	atLeastZero(c, "agentServer.keep.tasks", a.Keep.Tasks)
	atLeastZero(c, "agentServer.keep.sessions", a.Keep.Sessions)
	atLeastZero(c, "agentServer.keep.tombstones", a.Keep.Tombstones)
}
