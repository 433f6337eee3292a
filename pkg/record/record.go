// Package record is what the services ask of one another and the records they leave for one another, each a JSON
// message on one subject of the bus. schemas/commands holds the same contract for everyone who is not Go.
package record

import (
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Accepted is a request as the gateway took it, or the tool-executor where an agent calls another, written once on
// agentbus.accept.<tenant>.<requestId> before anything runs. With an idempotency key the requestId derives from the key,
// so this record is also the key's memory.
type Accepted struct {
	Tenant    string             `json:"tenant"`
	RequestID string             `json:"requestId"`
	ThreadID  string             `json:"threadId"`
	AgentID   string             `json:"agentId"`
	Owner     string             `json:"owner"` // subject of the principal
	Request   event.AgentRequest `json:"request"`
	BodyHash  string             `json:"bodyHash,omitempty"` // of the client's body, to recognise a retry
	Caller    *Caller            `json:"caller,omitempty"`   // the call of an agent that made the request; nil = a client did
	At        time.Time          `json:"at"`

	// Members of [event.Input] that only some protocols set. Note is its metadata.
	History []event.HistoryMessage `json:"history,omitempty"`
	System  string                 `json:"system,omitempty"`
	Note    json.RawMessage        `json:"metadata,omitzero"`
}

// Caller is the call of a tool by which an agent calls another one.
type Caller struct {
	RequestID  string   `json:"requestId"`
	ThreadID   string   `json:"threadId"`
	ToolCallID string   `json:"toolCallId"`
	Agents     []string `json:"agents"` // those that wait for this one, the outermost first
}

// Thread is the newest record on agentbus.thread.<tenant>.<threadId>. Each request on the thread appends one by
// compare-and-set: that decides who runs next, and, with Resolves, who resolved an action.
type Thread struct {
	ThreadID  string    `json:"threadId"`
	Owner     string    `json:"owner"`
	AgentID   string    `json:"agentId"`
	RequestID string    `json:"requestId,omitempty"` // the newest request; "" = the deleted thread had none
	Index     int       `json:"index"`               // of that request on the thread, dense from 0
	Behind    int       `json:"behind,omitzero"`     // distance to the record of the oldest request that had not ended; 0 = all had ended
	Resolves  []string  `json:"resolves,omitempty"`  // the actions which that request brings results for
	Deleted   bool      `json:"deleted,omitzero"`    // the thread is gone
	Ended     *Ended    `json:"ended,omitempty"`     // data about a deleted thread; nil = unknown
	At        time.Time `json:"at"`
}

// Ended is the data about a deleted thread that its followers receive.
type Ended struct {
	BeganAt  time.Time `json:"beganAt"`
	At       time.Time `json:"at"`
	Messages int       `json:"messages"` // of users, and turns of models
}

// Session is the newest record on agentbus.session.<tenant>.<threadId>: what people and clients have noted on a thread,
// which may be there before the thread has a request. Each change appends one by compare-and-set. A thread without such a
// record is a session too, of which nothing is noted.
type Session struct {
	ThreadID        string          `json:"threadId"`
	Owner           string          `json:"owner"`
	AgentID         string          `json:"agentId"` // who answers requests that name no agent
	Name            string          `json:"name,omitempty"`
	Tags            []string        `json:"tags,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitzero"`        // an object, the client's own
	Model           *Model          `json:"model,omitempty"`          // nil = the agent's own
	RuntimeSettings json.RawMessage `json:"runtimeSettings,omitzero"` // an object, as the agent's schema has it
	CreatedAt       time.Time       `json:"createdAt"`
	UpdatedAt       time.Time       `json:"updatedAt"`        // later than that of the record before it, whatever the clocks say
	Deleted         bool            `json:"deleted,omitzero"` // the session is gone, and its thread with it
}

// Created reports whether s is the record that created its session. If it is still in the stream, so are the thread's
// requests.
func (s Session) Created() bool { return s.UpdatedAt.Equal(s.CreatedAt) && !s.Deleted }

// Model names a model: the choice of a [Session].
type Model struct {
	Provider string `json:"provider"`
	ID       string `json:"id"`
}

// Start points a runner at an accepted request: agentbus.request.<tenant>.<agent>.<requestId>, a work queue.
type Start struct {
	Tenant    string `json:"tenant"`
	AgentID   string `json:"agentId"`
	RequestID string `json:"requestId"`
	ThreadID  string `json:"threadId"`
	Index     int    `json:"index"` // of the request on its thread; see Thread
	// Accepted is the request's record, where it is small: it saves the runner the way to the bus.
	Accepted *Accepted `json:"accepted,omitempty"`
}

// Abort asks for the end of a request: agentbus.command.<tenant>.<requestId>.abort, the first one counts.
type Abort struct {
	RequestID string    `json:"requestId"`
	By        string    `json:"by"`
	Reason    string    `json:"reason,omitempty"`
	At        time.Time `json:"at"`
}

// Steer is what a user says to a request that runs: agentbus.command.<tenant>.<requestId>.steer.<steerId>, first write
// wins. The model reads it before its next turn.
type Steer struct {
	RequestID string               `json:"requestId"`
	SteerID   string               `json:"steerId"`
	By        string               `json:"by"` // subject of the principal
	Messages  []event.InputMessage `json:"messages"`
	At        time.Time            `json:"at"`
}

// ToolCall asks a tool-executor to run a tool: agentbus.tool.<tenant>.<toolset>.<requestId>.<toolCallId>, a work queue.
type ToolCall struct {
	Tenant     string          `json:"tenant"`
	RequestID  string          `json:"requestId"`
	ThreadID   string          `json:"threadId"`
	AgentID    string          `json:"agentId"`
	ToolCallID string          `json:"toolCallId"`
	Tool       string          `json:"name"`
	Args       json.RawMessage `json:"args"`
	ArgsHash   string          `json:"argsHash"`           // SHA-256 of the canonical arguments; see HashArgs
	Approved   string          `json:"approved,omitempty"` // the actionId of the approval, where the tool asks for one
	Deadline   time.Time       `json:"deadline,omitzero"`

	// Context is the context of the request, for the tool's templates; nil = none.
	Context json.RawMessage `json:"context,omitzero"`
}

// ToolStarted says that a call is about to take effect: agentbus.started.<tenant>.<requestId>.<toolCallId>, first
// write wins. An unsafe tool never runs without having written it.
type ToolStarted struct {
	ToolCallID string    `json:"toolCallId"`
	Executor   string    `json:"executor"`
	At         time.Time `json:"at"`
}

// ToolResult is the end of a call: agentbus.result.<tenant>.<requestId>.<toolCallId>, first write wins. Content is the
// output for the model; Ref replaces it if it is large.
type ToolResult struct {
	ToolCallID string            `json:"toolCallId"`
	Status     event.ToolStatus  `json:"status"`
	Content    string            `json:"content,omitempty"`
	Ref        *event.ObjectRef  `json:"ref,omitempty"`
	Media      []event.InputPart `json:"media,omitempty"`   // images and files in addition to the content, by URL or reference
	Summary    string            `json:"summary,omitempty"` // what clients see
	ElapsedMS  int64             `json:"elapsedMs,omitzero"`
	Events     []event.Custom    `json:"events,omitempty"` // what the tool has emitted
	Ask        *ToolAsk          `json:"ask,omitempty"`    // a question to the user, in place of an end; Status is then unknown
}

// ToolAsk is a question of a call, and what the call needs to continue with the answer.
type ToolAsk struct {
	Question string          `json:"question"`
	Schema   json.RawMessage `json:"schema,omitzero"`
	URL      string          `json:"url,omitempty"`
	State    json.RawMessage `json:"state,omitzero"`
	Executor string          `json:"executor,omitempty"` // process in which the call is still open; "" = none

	// The call that asks. The answer is for no other one.
	ThreadID string `json:"threadId"`
	Tool     string `json:"name"`
	ArgsHash string `json:"argsHash"`
}

// ToolProgress is output of a running tool: agentbus.progress.<tenant>.<requestId>.<toolCallId>, kept nowhere.
type ToolProgress struct {
	ToolCallID string        `json:"toolCallId"`
	Delta      string        `json:"delta"`
	Event      *event.Custom `json:"event,omitempty"` // that the tool has emitted; nil = Delta alone
	Index      int           `json:"index,omitzero"`  // of Event in [ToolResult.Events]
}
