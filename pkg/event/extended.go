package event

import (
	"encoding/json"
)

// Input is the messages and decisions of the user: other clients of the thread show them, and the thread's history
// starts with them. A request begins with one. Each later one is a steer, at the position where the model reads it.
type Input struct {
	ThreadID      string         `json:"threadId"`
	AgentID       string         `json:"agentId"`
	SteerID       string         `json:"steerId,omitempty"` // of a steer
	Messages      []InputMessage `json:"messages"`
	ActionResults []ActionResult `json:"actionResults,omitempty"`

	// History is the earlier messages of a thread that begins with a conversation of the client.
	History  []HistoryMessage `json:"history,omitempty"`
	Tools    []RequestTool    `json:"tools,omitzero"` // nil = not declared, which differs from an empty list
	Options  RequestOptions   `json:"options,omitzero"`
	System   string           `json:"system,omitempty"`  // follows the agent's instructions
	Context  json.RawMessage  `json:"context,omitzero"`  // an object: the request's context without actionResults and model
	Metadata json.RawMessage  `json:"metadata,omitzero"` // an object of the protocol by which the request came
	Extra    Members          `json:",embed"`
}

// Claim says who writes from here on. A higher epoch makes every lower one stale. One that is Released ends the claim
// before it: its runner stops and hands the request over.
type Claim struct {
	Epoch    uint64  `json:"epoch"`
	Runner   string  `json:"runner"`
	Build    string  `json:"build,omitempty"`
	Released bool    `json:"released,omitzero"`
	TraceID  string  `json:"traceId,omitempty"` // in which that process works, as OpenTelemetry names it
	Extra    Members `json:",embed"`
}

// Plan is the agent's plan (Agent TARS: plan_start, plan_update, plan_finish). It belongs to the thread: a later
// request continues it.
type Plan struct {
	Stage      Stage      `json:"stage"`                // start, delta (an update), stop
	Steps      []PlanStep `json:"steps,omitempty"`      // with start and delta: the whole current plan
	Summary    string     `json:"summary,omitempty"`    // with stop
	ToolCallID string     `json:"toolCallId,omitempty"` // the call that brought it about
	Extra      Members    `json:",embed"`
}

// PlanStep is one line of a plan.
type PlanStep struct {
	Content string `json:"content"`
	Done    bool   `json:"done"`
}

// Notice is a message to the reader that is not part of the answer (Agent TARS: system).
type Notice struct {
	Level   string          `json:"level"` // info, warning, error
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitzero"`
	Extra   Members         `json:",embed"`
}

// FinalAnswer is a report that concludes the work (Agent TARS: final_answer and final_answer_streaming).
type FinalAnswer struct {
	Block
	Delta   string  `json:"delta,omitempty"`
	Content string  `json:"content,omitempty"` // with stop
	Title   string  `json:"title,omitempty"`
	Format  string  `json:"format,omitempty"`
	Kind    string  `json:"kind,omitempty"` // ReportResearch, or "" for any other
	Extra   Members `json:",embed"`
}

// ReportResearch is the kind of a report that concludes research (Agent TARS: isDeepResearch).
const ReportResearch = "research"

// UsageSoFar is the total usage of the request so far. One follows each finished turn of the model; the members after
// Turns describe that turn.
type UsageSoFar struct {
	Usage
	Turns        int          `json:"turns"`
	FinishReason FinishReason `json:"finishReason,omitempty"`
	Model        string       `json:"model,omitempty"`    // that answered, as the provider names it
	TTFTMS       int64        `json:"ttftMs,omitzero"`    // until it said the first thing
	ElapsedMS    int64        `json:"elapsedMs,omitzero"` // until it had said all
	Extra        Members      `json:",embed"`
}

// Custom is an event of an application (Tarko, Custom Events): Type is its name, Data any JSON. Tools and backends emit
// it; [NewCustom] has the rules.
type Custom struct {
	Type       string          `json:"type"`
	Data       json.RawMessage `json:"data,omitzero"`
	ToolCallID string          `json:"toolCallId,omitempty"` // of the tool's call that emitted it
	Extra      Members         `json:",embed"`
}

// ContextCompressed reports that the model reads a summary instead of the thread's older part (Tarko:
// context_compressed). The log keeps all events. Lengths are estimates in tokens.
type ContextCompressed struct {
	OriginalLength   int64   `json:"originalLength"`
	CompressedLength int64   `json:"compressedLength"`
	CompressionRatio float64 `json:"compressionRatio"` // compressed by original
	Strategy         string  `json:"strategy"`
	Extra            Members `json:",embed"`
}

// Summary stands for the older part of the thread: from here on, in this request and in later ones, the model reads it
// in place of all contributions but the newest Kept ones. A contribution is a message of the user, or a turn of the
// model with its results.
type Summary struct {
	Text             string  `json:"text"`
	Kept             int     `json:"kept"`
	Strategy         string  `json:"strategy"`
	OriginalLength   int64   `json:"originalLength"`   // of the conversation before, in tokens
	CompressedLength int64   `json:"compressedLength"` // of the summary and what is kept
	Usage            Usage   `json:"usage"`            // of making it
	Extra            Members `json:",embed"`
}

// AgentSession is the state that resumes the session which the request's agent keeps by itself (agentic: session_id).
// The newest one of the thread counts.
type AgentSession struct {
	SessionID string `json:"sessionId"` // as the agent names it
	Used      Usage  `json:"used"`      // what the agent has counted in all of the session until now
	// Settled says that the events before this one are complete up to the session's place: a runner that takes the
	// request over keeps them, and the agent does not repeat them.
	Settled bool        `json:"settled,omitzero"`
	Running []AgentTool `json:"running,omitempty"` // with Settled: tools that the agent keeps running without a follower
	Extra   Members     `json:",embed"`
}

// AgentTool is a tool that an agent runs by itself.
type AgentTool struct {
	ID         string `json:"id"` // as the agent names the call
	ToolCallID string `json:"toolCallId"`
}

// Subagent is an event of an agent that this one has called: what happens in the request that the call has made shows in
// this one too, nested under the call, and nested deeper where that agent calls others.
type Subagent struct {
	ToolCallID string          `json:"toolCallId"` // of the call
	AgentID    string          `json:"agentId"`    // who was called
	Inner      json.RawMessage `json:"inner"`      // the event with its envelope, as in its own log
	Extra      Members         `json:",embed"`
}

// ToolOutput is what the model reads of a tool's result. Clients get [ToolResult] instead.
type ToolOutput struct {
	ToolCallID string      `json:"toolCallId"`
	Status     ToolStatus  `json:"status"`
	Content    string      `json:"content,omitempty"`
	Ref        *ObjectRef  `json:"ref,omitempty"`   // instead of content, when it is large
	Media      []InputPart `json:"media,omitempty"` // images and files, in addition to the content
	Extra      Members     `json:",embed"`
}

// ObjectRef names a payload in the object store.
type ObjectRef struct {
	Object string `json:"object"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Unknown is an event that this build cannot read; it survives a round trip as it came.
type Unknown struct {
	Event Name    `json:"-"`
	Rest  Members `json:",embed"`
}

func (Input) Name() Name       { return NameInput }
func (Claim) Name() Name       { return NameClaim }
func (Plan) Name() Name        { return NamePlan }
func (Notice) Name() Name      { return NameNotice }
func (FinalAnswer) Name() Name { return NameFinalAnswer }
func (UsageSoFar) Name() Name  { return NameUsage }
func (Custom) Name() Name      { return NameCustom }
func (ToolOutput) Name() Name  { return NameToolOutput }
func (Summary) Name() Name     { return NameSummary }
func (u Unknown) Name() Name   { return u.Event }

func (AgentSession) Name() Name      { return NameAgentSession }
func (ContextCompressed) Name() Name { return NameContextCompressed }
func (Subagent) Name() Name          { return NameSubagent }

func (Input) sealed()       {}
func (Claim) sealed()       {}
func (Plan) sealed()        {}
func (Notice) sealed()      {}
func (FinalAnswer) sealed() {}
func (UsageSoFar) sealed()  {}
func (Custom) sealed()      {}
func (ToolOutput) sealed()  {}
func (Summary) sealed()     {}
func (Unknown) sealed()     {}

func (AgentSession) sealed()      {}
func (ContextCompressed) sealed() {}
func (Subagent) sealed()          {}
