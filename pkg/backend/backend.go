// Package backend defines the interface to what produces a turn: a model with an API, a program, a remote agent, or the
// offline script of the demo (agentic, AgentProtocol). An agent-runner or an agent-server drives it.
//
// A backend has no state that must survive: the [Turn] has the conversation, and the caller keeps the [State] that
// resumes an agent's session. So any runner can take over.
//
// Read session.go for the contract, agent.go for agents that run their own tools, optional.go for optional interfaces.
package backend

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Turn is everything that a model needs to speak once.
type Turn struct {
	RequestID string
	ThreadID  string
	AgentID   string
	Model     string
	System    string
	Messages  []Message   // the conversation; ends with a user's message or with tool results
	Tools     []tool.Spec // what the model may call
	MaxTokens int         // of the answer; 0 = the backend's default
	Thinking  int         // budget of thinking tokens; 0 = as Effort says
	Effort    Effort      // how much the model thinks; "" = as Thinking says or, without it, the provider's default
	UserID    string      // who asks; a provider gets a hash of it
	Options   json.RawMessage

	// Request is the options of the request, which have priority over the backend's own. MaxTokens has them applied. A
	// backend ignores an option that its provider does not have; docs/backends.md lists them.
	Request event.RequestOptions

	Known   int // number of Messages, from the first on, that the session has received
	Attempt int // 1, and one more for each crash of a runner and each cut connection in this request

	Limits Limits // the rest of the request's limits, for agents that take several turns by themselves

	Summarise  bool // the message asks for a summary of a conversation; a scripted backend must not interpret it
	Summarised int  // of the turns since the user spoke, those that are not among Messages: a summary stands for them
}

// Effort is how much a model thinks before it answers.
type Effort = string

// The levels of effort. A provider that lacks one takes the nearest.
const (
	EffortNone   Effort = "none" // it does not think
	EffortLow    Effort = "low"
	EffortMedium Effort = "medium"
	EffortHigh   Effort = "high"
	EffortXHigh  Effort = "xhigh"
	EffortMax    Effort = "max"
)

// Efforts lists the levels, the lowest first.
func Efforts() []Effort {
	return []Effort{EffortNone, EffortLow, EffortMedium, EffortHigh, EffortXHigh, EffortMax}
}

// Limits bound what one [Send] may use; 0 = no limit. Its time is that of its context.
type Limits struct {
	Turns   int // of the model
	Tokens  int64
	CostUSD float64
}

// Role says who speaks.
type Role string

// The roles of a conversation. Tool results have a separate role.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Message is one contribution to the conversation.
type Message struct {
	Role    Role
	Parts   []Part
	Refused bool // the model refused to answer; Parts is what it said until then, perhaps nothing
}

// Part is a piece of a message: Text, Thinking, Call, Result or Media.
type Part interface{ part() }

// The Signature of a part is what the backend emitted with it: data that a provider wants back unchanged. Another backend,
// or another model, may have emitted it: a backend returns to its provider only what it recognises as its own.

// Text is plain text.
type Text struct{ Text, Signature string }

// Thinking is reasoning that the model showed earlier.
type Thinking struct{ Text, Signature string }

// Call is a tool call that the model made.
type Call struct {
	ID        string // ours, not the provider's
	Name      string
	Args      json.RawMessage
	Signature string
}

// Result answers the Call with the same ID.
type Result struct {
	ID      string
	Name    string
	Content string
	Media   []event.InputPart // images and files in addition to the content, as in Media
	Status  event.ToolStatus
}

// Media is an image or a file, by URL or with its data, or a text that replaces one. If the model does not support it,
// the backend describes it in words: a part of a conversation must never fail a turn.
type Media struct{ Input event.InputPart }

func (Text) part()     {}
func (Thinking) part() {}
func (Call) part()     {}
func (Result) part()   {}
func (Media) part()    {}

// Chunk is something that the model just produced: TextDelta, TextSignature, ThinkingDelta, Signature, CallStart, CallDelta,
// CallSignature, Custom, Warning; and of an agent that runs its own tools ToolStarted, ToolProgress, ToolEnded, Step, State. Chunks of one kind
// belong to one block until a chunk of another kind (or another CallStart) comes.
type Chunk interface{ chunk() }

// TextDelta adds to the text.
type TextDelta string

// ThinkingDelta adds to the thinking.
type ThinkingDelta string

// TextSignature completes the text before it. Text that follows is another block.
type TextSignature string

// Signature completes the thinking before it. Without any, it stands for thinking that the provider hides.
type Signature string

// CallStart opens a tool call. Index identifies the call within the turn.
type CallStart struct {
	Index int
	Name  string
	Gate  Gate // what must happen before the tool runs; "" = as the tool is configured
}

// CallDelta adds to the JSON text of a call's arguments. Calls may interleave.
type CallDelta struct {
	Index int
	Args  string
}

// CallSignature gives a call its signature.
type CallSignature struct {
	Index     int
	Signature string
}

// Custom is an event of an application, as [event.NewCustom] has it.
type Custom struct {
	Type string
	Data json.RawMessage // an object; empty = {}
}

// Warning is a message for operators or readers that is not part of the answer.
type Warning string

func (TextDelta) chunk()     {}
func (TextSignature) chunk() {}
func (ThinkingDelta) chunk() {}
func (Signature) chunk()     {}
func (CallStart) chunk()     {}
func (CallDelta) chunk()     {}
func (CallSignature) chunk() {}
func (Warning) chunk()       {}
func (Custom) chunk()        {}

// Gate says who must act before a call has its result.
type Gate string

// The gates.
const (
	GateApproval Gate = "approval" // a person allows it
	GateClient   Gate = "client"   // the client runs it
	GateInput    Gate = "input"    // a person answers; the arguments are {"question": …}

	// GateAgentApproval: a person decides, and the agent runs the call itself after that. The result is the decision: its
	// status is success or denied.
	GateAgentApproval Gate = "agent_approval"
)

// Outcome is how a turn ended.
type Outcome struct {
	Finish event.FinishReason // FinishToolCalls when calls wait for their results
	Usage  event.Usage        // of the whole turn with its Steps; without CostUSD unless the backend has a better figure than the price table
	Turns  int                // of the model, in addition to the Steps; 0 = 1
	Model  string             // the model that answered, as the provider names it
	ID     string             // the provider's id of the answer
	State  State              // of the session from here on; it is stored with the end of the turn. Zero = what was emitted last
}

// Emit hands a chunk to the runner. It may block, which slows the model down. After an error the backend returns that
// error. It is not safe for concurrent use.
type Emit func(Chunk) error
