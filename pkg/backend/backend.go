// Package backend is the door to what produces a turn: a model behind an API, an agent in another process, or the
// offline script of the demo. An agent-runner, or an agent-server, drives what stands behind it.
//
// A backend keeps no state between turns: whatever it needs stands in the [Turn], so that any runner can take over.
package backend

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json/jsontext"
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
	Thinking  int         // budget of thinking tokens; 0 = no thinking
	Options   jsontext.Value

	Summarise  bool // the message asks for a summary of a conversation: whoever follows a script must not go on with it
	Summarised int  // of the turns since the user spoke, those that are not among Messages: a summary stands for them
}

// Role says who speaks.
type Role string

// The roles of a conversation. Tool results have a role of their own.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Message is one contribution to the conversation.
type Message struct {
	Role  Role
	Parts []Part
}

// Part is a piece of a message: Text, Thinking, Call, Result or Media.
type Part interface{ part() }

// Text is plain text.
type Text struct{ Text string }

// Thinking is reasoning that the model showed earlier; providers want it back with its signature.
type Thinking struct{ Text, Signature string }

// Call is a tool call that the model made.
type Call struct {
	ID   string // ours, not the provider's
	Name string
	Args jsontext.Value
}

// Result answers the Call with the same ID.
type Result struct {
	ID      string
	Name    string
	Content string
	Media   []event.InputPart // images and files beside the content, as in Media
	Status  event.ToolStatus
}

// Media is an image or a file, by URL or with its data, or the text that stands for one. A backend tells the model of what
// it cannot show: a part that once stands in a conversation must not end it.
type Media struct{ Input event.InputPart }

func (Text) part()     {}
func (Thinking) part() {}
func (Call) part()     {}
func (Result) part()   {}
func (Media) part()    {}

// Chunk is something that the model just produced: TextDelta, ThinkingDelta, Signature, CallStart, CallDelta, Custom,
// Warning. Chunks of one kind belong to one block until a chunk of another kind (or another CallStart) comes.
type Chunk interface{ chunk() }

// TextDelta adds to the text.
type TextDelta string

// ThinkingDelta adds to the thinking.
type ThinkingDelta string

// Signature completes the thinking before it.
type Signature string

// CallStart opens a tool call. Index tells calls of one turn apart.
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

// Custom is an event of an application, as [event.NewCustom] has it.
type Custom struct {
	Type string
	Data jsontext.Value // an object; empty = {}
}

// Warning is something an operator or reader should know and the answer does not say.
type Warning string

func (TextDelta) chunk()     {}
func (ThinkingDelta) chunk() {}
func (Signature) chunk()     {}
func (CallStart) chunk()     {}
func (CallDelta) chunk()     {}
func (Warning) chunk()       {}
func (Custom) chunk()        {}

// Gate says who must act before a call has its result.
type Gate string

// The gates.
const (
	GateApproval Gate = "approval" // a person allows it
	GateClient   Gate = "client"   // the client runs it
	GateInput    Gate = "input"    // a person answers; the arguments are {"question": …}
)

// Outcome is how a turn ended.
type Outcome struct {
	Finish event.FinishReason // FinishToolCalls when calls wait for their results
	Usage  event.Usage        // of this turn; without CostUSD unless the backend knows it better than the price table
	Model  string             // the model that answered, as the provider names it
	ID     string             // the provider's id of the answer
}

// Emit hands a chunk to the runner. It may block, which slows the model down. After an error the backend returns that
// error. It is not safe for concurrent use.
type Emit func(Chunk) error

// Backend turns one turn into a stream of chunks.
type Backend interface {
	// Run emits chunks until the turn is over. Cancelling ctx ends it within a second, and Run then returns ctx's
	// error. An error that a client may read is a *fault.Error, with Retryable set where another try may help (S2,
	// Retry Guidance); Outcome.Usage is valid beside an error as far as it is known. Run is safe for concurrent use.
	Run(ctx context.Context, turn Turn, emit Emit) (Outcome, error)
}
