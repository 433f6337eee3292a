// Package config is the one YAML file that describes agents, models, tools and the gateway's limits. Every service reads
// the same file; what belongs to a deployment (addresses, secrets) comes from the environment instead.
//
// Every field's zero value is a good default, so that services of different versions may read one file.
package config

import (
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/tool"
)

// Config is the whole file.
type Config struct {
	Demo    bool                 `yaml:"demo"` // adds the agent [Demo], under DefaultAgent
	Agents  map[string]Agent     `yaml:"agents"`
	Models  map[string]Model     `yaml:"models"`
	Tools   map[string]Tool      `yaml:"tools"`
	Files   Files                `yaml:"files"`
	Sandbox Sandbox              `yaml:"sandbox"`
	MCP     map[string]MCPServer `yaml:"mcp"`
	Events  map[string]Event     `yaml:"events"` // of applications, by type; a type that is not here may look as it likes
	Gateway Gateway              `yaml:"gateway"`
	Hub     Hub                  `yaml:"hub"`

	AgentServer AgentServer `yaml:"agentServer"`
}

// Agent is a named configuration of a backend.
type Agent struct {
	Description string `yaml:"description"`
	// Backend is scripted, openai, openai-responses, anthropic; claude-code, codex, opencode, cli, acp; http, agui, ai-sdk, a2a; remote.
	Backend       string       `yaml:"backend"`
	Model         string       `yaml:"model"`
	Models        []string     `yaml:"models"` // that a request may name instead of Model; "*" = any; default: Model alone
	System        string       `yaml:"system"`
	Tools         []string     `yaml:"tools"`        // names of server tools that the model may call
	Agents        []string     `yaml:"agents"`       // names of agents that the model may call as tools
	ClientTools   []ClientTool `yaml:"clientTools"`  // tools that the client runs
	RequestTools  string       `yaml:"requestTools"` // allow (default) or refuse, tools that a request declares for its client to run
	ToolOutput    string       `yaml:"toolOutput"`   // refuse (default) or allow, clients that ask for the output of tools
	Approval      Approvals    `yaml:"approval"`     // by tool, before what the tool says; "*" = every tool that is not named
	AskUser       bool         `yaml:"askUser"`      // lets the model ask the user a question
	Planning      bool         `yaml:"planning"`     // lets the model keep a plan that clients see
	FinalAnswer   bool         `yaml:"finalAnswer"`  // lets the model conclude with a report
	Thinking      int          `yaml:"thinking"`     // budget of thinking tokens; 0 = off
	Effort        string       `yaml:"effort"`       // none, low, medium, high, xhigh or max; default: by thinking, or of the provider
	MaxTokens     int          `yaml:"maxTokens"`    // of one answer
	Options       ModelOptions `yaml:"options"`      // of the model
	Fallback      []string     `yaml:"fallback"`     // models that answer where the model before does not
	Limits        Limits       `yaml:"limits"`
	ContextWindow int64        `yaml:"contextWindow"` // tokens that the model can read; default by model
	CompressAt    float64      `yaml:"compressAt"`    // share of it from which on older turns are summarised; default 0.8
	OnDisconnect  string       `yaml:"onDisconnect"`  // continue (default) or abort, when the client that started it leaves
	OnBusy        string       `yaml:"onBusy"`        // reject (default), queue or interrupt, when a request runs on the thread
	Queue         int          `yaml:"queue"`         // how many requests may wait on a thread; default 5
	OnCrash       string       `yaml:"onCrash"`       // restart (default) or error, when the runner of a request dies
	OnUnknown     string       `yaml:"onUnknown"`     // after an unsafe call with an unknown outcome: report to the model (default), or ask the user
	ActionTTL     Duration     `yaml:"actionTTL"`     // how long a client has to act; default 24h, at most NATS_MAX_AGE
	BaseURL       string       `yaml:"baseURL"`       // of the provider; default from the environment
	APIKeyEnv     string       `yaml:"apiKeyEnv"`     // variable that holds the provider's key; default by backend
	Provider      string       `yaml:"provider"`      // name of the provider in messages; default by backend

	Headers        map[string]string `yaml:"headers"`        // sent to the provider or agent; "${NAME}" for a variable
	Query          map[string]string `yaml:"query"`          // added to the address of the provider or agent; "${NAME}" for a variable
	PromptCaching  string            `yaml:"promptCaching"`  // anthropic: on (default) or off
	ReturnThinking string            `yaml:"returnThinking"` // openai: never, turn or always; default by model
	ThinkTags      bool              `yaml:"thinkTags"`      // openai: text between <think> and </think> is thinking

	URL           string   `yaml:"url"`           // http, agui, ai-sdk, a2a, langgraph: of the agent, which another server runs
	Assistant     string   `yaml:"assistant"`     // langgraph: the assistant, or graph, of the server
	SigningKeyEnv string   `yaml:"signingKeyEnv"` // http: variable with the key that signs the requests; default: they are not signed
	Quiet         Duration `yaml:"quiet"`         // http, agui, ai-sdk, a2a, langgraph: how long an answer may be silent; default 5m
	Send          string   `yaml:"send"`          // agui, ai-sdk: all (default), or new, for an agent that remembers the messages that it got

	Script    string `yaml:"script"`    // scripted: run this whatever the prompt says
	Workspace string `yaml:"workspace"` // folder that a program works in, relative to that of the file; "{thread}" stands for the thread's id
	CLI       CLI    `yaml:"cli"`       // how the program runs
	Remote    Remote `yaml:"remote"`    // remote: which remote agent of the hub it is
}

// Approvals say by the name of a tool whether a person must allow each call.
type Approvals map[string]tool.Approval

// AnyTool is the name in [Approvals] that stands for every tool which is not named.
const AnyTool = "*"

// Of gives what an agent asks for a tool, and fallback, the tool's own, where it says nothing.
func (a Approvals) Of(name string, fallback tool.Approval) tool.Approval {
	if set, ok := a[name]; ok {
		return set
	}
	if set, ok := a[AnyTool]; ok {
		return set
	}
	return fallback
}

// AgentTool is the name of the tool by which the models of other agents call an agent.
func AgentTool(name string) string { return agentPrefix + name }

// AgentOfTool is the agent that a tool calls, if it calls one.
func AgentOfTool(tool string) (name string, ok bool) { return strings.CutPrefix(tool, agentPrefix) }

const agentPrefix = "agent__"

// Limits bound one request, and the requests of agents that it calls with it.
type Limits struct {
	Turns  int      `yaml:"turns"`  // default 20
	Tokens int64    `yaml:"tokens"` // input and output together; 0 = no limit
	Cost   float64  `yaml:"cost"`   // US dollars, where prices are known; 0 = no limit
	Time   Duration `yaml:"time"`   // default 10m
	Depth  int      `yaml:"depth"`  // how many levels of agents this one may call; default 3
}

// ClientTool is a tool that runs on the client's side.
type ClientTool struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Schema      map[string]any `yaml:"schema"`
}

// Duration is a time.Duration written as "30s" or "10m".
type Duration time.Duration

// Or returns d, or fallback when d is zero.
func (d Duration) Or(fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return time.Duration(d)
}
