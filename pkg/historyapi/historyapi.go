// Package historyapi defines the requests that history answers over the bus: a struct for each query, one for each
// response, and a method of [Client].
//
// Responses are consistent with earlier writes: before history answers about a thread or a request, it waits until it
// has projected its log up to the end at the time of the query (at most [ProjectionTimeout], then apierr.Unavailable).
//
// An invalid cursor, limit or id is apierr.InvalidMessageFormat. A page may be shorter than its limit if its events are
// long: only an empty NextCursor marks the last page.
package historyapi

import (
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// ProjectionTimeout is how long history waits for its projection before it gives up on an answer.
const ProjectionTimeout = 5 * time.Second

// Status is the status of a request.
type Status string

// The states of a request.
const (
	StatusQueued  Status = "queued"  // accepted and not claimed yet
	StatusRunning Status = "running" // claimed
	StatusDone    Status = "done"
	StatusError   Status = "error"
	StatusAborted Status = "aborted"
)

// ThreadRef names a thread.
type ThreadRef struct {
	Tenant   string `json:"tenant"`
	ThreadID string `json:"threadId"`
}

// Thread is a conversation.
type Thread struct {
	ThreadID      string    `json:"threadId"`
	AgentID       string    `json:"agentId"` // of its newest request
	Owner         string    `json:"owner"`
	Title         string    `json:"title,omitempty"` // its session's name, or else the start of its first message
	Requests      int       `json:"requests"`
	LastRequestID string    `json:"lastRequestId,omitempty"` // "" = it has no request yet
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`

	OpenActions []OpenAction `json:"openActions,omitempty"` // that the thread waits for; of Thread and Threads only
}

// OpenAction is an action that a thread waits for. Actions that have expired may be among them.
type OpenAction struct {
	ActionID  string                 `json:"actionId"`
	Kind      event.ContinuationKind `json:"kind"`
	ExpiresAt time.Time              `json:"expiresAt,omitzero"`
}

// ActionsQuery lists the actions that an owner's threads wait for, those of the most recently changed thread first. History
// waits as for a ThreadsQuery.
type ActionsQuery struct {
	Tenant   string `json:"tenant"`
	Owner    string `json:"owner"`
	ThreadID string `json:"threadId,omitempty"` // only of this thread
	AgentID  string `json:"agentId,omitempty"`  // only of this agent
	Limit    int    `json:"limit,omitzero"`     // 1 to 200; 0 = 50. A page contains all actions of its threads, and may exceed it
	Cursor   string `json:"cursor,omitzero"`
}

// Action is an [event.Continuation] that waits for its client. It may have expired.
type Action struct {
	ActionID  string                   `json:"actionId"`
	Kind      event.ContinuationKind   `json:"kind"`
	ThreadID  string                   `json:"threadId"`
	RequestID string                   `json:"requestId"`
	AgentID   string                   `json:"agentId"`
	Payload   event.ContinuationAction `json:"payload"`
	At        time.Time                `json:"at"`
	ExpiresAt time.Time                `json:"expiresAt,omitzero"`
}

// ActionPage is a page of actions. It can be empty and not the last one.
type ActionPage struct {
	Actions    []Action `json:"actions"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// Session is a thread with what is noted on it.
type Session struct {
	Thread
	Record *record.Session `json:"record,omitempty"` // nil = nothing is
}

// ThreadsQuery lists an owner's threads, most recently changed first. History waits until it has projected everything
// that was written before the query. If that is delayed by entries that the database rejects, it answers after a second
// with the current state.
type ThreadsQuery struct {
	Tenant string `json:"tenant"`
	Owner  string `json:"owner"`
	Limit  int    `json:"limit,omitzero"`  // 1 to 200; 0 = 50
	Cursor string `json:"cursor,omitzero"` // NextCursor of the page before
}

// ThreadPage is a page of threads.
type ThreadPage struct {
	Threads    []Thread `json:"threads"`
	NextCursor string   `json:"nextCursor,omitempty"` // "" = the last page
}

// SessionPage is a page of sessions.
type SessionPage struct {
	Sessions   []Session `json:"sessions"`
	NextCursor string    `json:"nextCursor,omitempty"`
}

// Message is one contribution to a thread, as people read it.
type Message struct {
	RequestID    string             `json:"requestId"`
	MessageID    string             `json:"messageId,omitempty"`
	Role         string             `json:"role"`              // user, assistant
	Input        event.InputContent `json:"input,omitempty"`   // of the user
	Content      []event.Content    `json:"content,omitempty"` // of the assistant
	FinishReason event.FinishReason `json:"finishReason,omitempty"`
	At           time.Time          `json:"at"`
}

// MessagesQuery asks for a thread's messages in order.
type MessagesQuery struct {
	ThreadRef
	Limit  int    `json:"limit,omitzero"` // of requests, 1 to 200; 0 = 50
	Cursor string `json:"cursor,omitzero"`
}

// MessagePage is a page of messages.
type MessagePage struct {
	Messages   []Message `json:"messages"`
	NextCursor string    `json:"nextCursor,omitempty"`
}

// EventsQuery asks for a thread's events across its requests, in order. Internal events are never among them.
type EventsQuery struct {
	ThreadRef
	Types  []event.Name `json:"types,omitempty"` // none = all
	Since  time.Time    `json:"since,omitzero"`
	Until  time.Time    `json:"until,omitzero"` // exclusive
	Limit  int          `json:"limit,omitzero"` // 1 to 1000; 0 = 100
	Cursor string       `json:"cursor,omitzero"`

	ToolOutputOf []string `json:"toolOutputOf,omitempty"` // agents whose tool output is listed too
}

// EventPage is a page of events, each as it was written.
type EventPage struct {
	Events     []json.RawMessage `json:"events"`
	NextCursor string            `json:"nextCursor,omitempty"`
}

// RequestRef names a request.
type RequestRef struct {
	Tenant    string `json:"tenant"`
	RequestID string `json:"requestId"`
}

// Request is the status of a request.
type Request struct {
	RequestID string          `json:"requestId"`
	ThreadID  string          `json:"threadId"`
	AgentID   string          `json:"agentId"`
	Owner     string          `json:"owner"`
	Index     int             `json:"index"` // on its thread, dense from 0; -1 while it has no place there
	Status    Status          `json:"status"`
	CreatedAt time.Time       `json:"createdAt"`
	EndedAt   time.Time       `json:"endedAt,omitzero"`
	Usage     *event.Usage    `json:"usage,omitempty"`
	Terminal  json.RawMessage `json:"terminal,omitempty"` // the terminal event

	// UnreadSteers are the steers that were accepted and that an ended request did not read. The gateway adds them, as
	// long as the bus remembers them.
	UnreadSteers []string `json:"unreadSteers,omitempty"`
}

// KeptQuery asks for the first of several requests that history has: those that one Idempotency-Key may have created.
// History does not wait for its projection: the query is for requests that are not in the stream.
type KeptQuery struct {
	Tenant     string   `json:"tenant"`
	RequestIDs []string `json:"requestIds"` // 1 to 10
}

// Kept is history's data about a request whose record is not in the stream.
type Kept struct {
	Request  *Request `json:"request,omitempty"`  // nil = unknown, or the thread was deleted
	BodyHash string   `json:"bodyHash,omitempty"` // of the body that it came with; "" = not known
	Deleted  bool     `json:"deleted,omitzero"`   // the request was there, and its thread was deleted
}

// StoredQuery asks how many bytes a tenant's threads, or those of one owner, have stored. History does not wait for its
// projection; during a rebuild the answer covers the part that is projected.
type StoredQuery struct {
	Tenant string `json:"tenant"`
	Owner  string `json:"owner,omitzero"` // "" = all of them
}

// Stored is how many bytes of a database events take, as they are packed there, with what requests came with and what is
// noted on sessions. Deleted threads have none.
type Stored struct {
	Bytes int64 `json:"bytes"`
}

// FramesQuery asks for a request's events from n on, for readers that come after the stream has forgotten them.
type FramesQuery struct {
	RequestRef
	From  uint64 `json:"from"`
	Limit int    `json:"limit,omitzero"` // of events, 1 to 2000; 0 = 500
	Bytes int    `json:"bytes,omitzero"` // the answer ends with the frame that passes this, 1 to 1 MiB; 0 = 1 MiB
}

// ThreadFramesQuery asks for the events of a thread's requests, one request after the other, without the deltas: what came
// of the streams, at a small part of what they cost. Internal events are among them unless Without names them.
type ThreadFramesQuery struct {
	ThreadRef
	Without []event.Name `json:"without,omitempty"`
	Limit   int          `json:"limit,omitzero"` // of events, 1 to 2000; 0 = 1000
	Cursor  string       `json:"cursor,omitzero"`
}

// ThreadFramePage is a page of events. A request that does not fit continues on the next page.
type ThreadFramePage struct {
	Requests   []RequestFrames `json:"requests"`
	NextCursor string          `json:"nextCursor,omitempty"`
}

// RequestFrames are events of one request. Between two frames some may be left out.
type RequestFrames struct {
	RequestID string  `json:"requestId"`
	Frames    []Frame `json:"frames"`
}

// FramePage is the next events of a request, in frames that need not be cut as the log has them. No frames means that the
// log ends before From.
type FramePage struct {
	Frames []Frame `json:"frames"`
}

// Frame is an event.Frame as it travels in an answer.
type Frame struct {
	Incarnation string       `json:"incarnation"`
	First       uint64       `json:"first"`
	Names       []event.Name `json:"names"`
	Lines       string       `json:"lines"`
}

// Event converts f to an event.Frame.
func (f Frame) Event() event.Frame {
	return event.Frame{Incarnation: f.Incarnation, First: f.First, Names: f.Names, Lines: []byte(f.Lines)}
}

// TranscriptQuery asks for the state of a thread that a model needs: the events of its requests with an index below
// Before, without deltas, with tool outputs. All of these requests have ended.
type TranscriptQuery struct {
	ThreadRef
	Before int `json:"before"`
}

// TranscriptAnswer holds one entry a request, in order. A request that history does not have in full yet makes the
// answer apierr.Unavailable after [ProjectionTimeout].
type TranscriptAnswer struct {
	Requests []RequestEvents `json:"requests"`
}

// RequestEvents are events of one request, each as it was written.
type RequestEvents struct {
	RequestID string            `json:"requestId"`
	Events    []json.RawMessage `json:"events"`
}

// OpenQuery asks for the requests, of all tenants or of one, that have not ended and of which nothing has come for a while. It is
// the one question that does not wait for the projection, and is for those who see to it that every request ends.
type OpenQuery struct {
	Before time.Time `json:"before"`          // all that came of them is older
	Tenant string    `json:"tenant,omitzero"` // whose; "" = of all
	Limit  int       `json:"limit,omitzero"`  // 1 to 1000; 0 = 200
	Cursor string    `json:"cursor,omitzero"` // NextCursor of the page before
}

// OpenPage is a page of open requests. The order is unspecified.
type OpenPage struct {
	Requests   []OpenRequest `json:"requests"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

// OpenRequest is a request that has its place on a thread and has not ended.
type OpenRequest struct {
	RequestRef
	ThreadID  string    `json:"threadId"`
	AgentID   string    `json:"agentId"`
	CreatedAt time.Time `json:"createdAt"`
}
