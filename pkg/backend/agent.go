package backend

import (
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Chunks of an agent that runs its own tools, such as a command-line agent or a remote agent. The runner does not
// execute these calls: they are reported for the log and for clients.

// ToolStarted says that the agent runs a tool.
type ToolStarted struct {
	ID   string // the agent's own, unique within a Send
	Name string
	Args json.RawMessage // an object; empty = {}

	Signature string // as that of a [Call]
}

// ToolProgress is what a running tool prints.
type ToolProgress struct {
	ID    string
	Delta string
}

// ToolEnded says how a tool ended. One that has not ended when the turn does counts as unknown.
type ToolEnded struct {
	ID      string
	Status  event.ToolStatus // "" = success
	Content string           // what the agent's model reads, as text
	Summary string           // what clients see; "" = the size of Content
	Elapsed time.Duration    // 0 = since ToolStarted
}

// Step reports that the agent's model has ended a turn and the agent continues with another one. It follows the
// ToolStarted chunks of the turn's tools, as far as they are known.
type Step struct {
	Usage event.Usage // of that turn, as far as it is known; [Outcome.Usage] corrects it
	Model string
}

// Plan is what the agent means to do, as a whole.
type Plan struct{ Steps []event.PlanStep }

// Settled is chunks together with the place of the agent's session that they lead to. They are stored as a whole: a runner that
// takes the request over resumes the session at the newest State that was stored, with everything up to it, and the agent
// must not repeat any of that. It is for agents that work without a follower.
type Settled struct {
	Chunks []Chunk // ToolStarted, ToolProgress, ToolEnded, Step or Plan
	State  State
}

// RunningTool is a tool that an agent has started and not ended.
type RunningTool struct{ ID, Name string }

func (Settled) chunk()      {}
func (ToolStarted) chunk()  {}
func (ToolProgress) chunk() {}
func (ToolEnded) chunk()    {}
func (Step) chunk()         {}
func (Plan) chunk()         {}
