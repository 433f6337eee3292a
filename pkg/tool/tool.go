// Package tool defines the interface of tools. A tool-executor or an agent-server runs them; the model sees the [Spec].
package tool

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Effect is what a call changes, and therefore what may be done if its outcome is unknown.
type Effect string

// The effects. Unknown outcomes of None and Idempotent tools are tried again; an Unsafe call runs at most once.
const (
	EffectNone       Effect = "none"
	EffectIdempotent Effect = "idempotent"
	EffectUnsafe     Effect = "unsafe"
)

// Approval says whether a person must allow each call.
type Approval string

// The approval policies.
const (
	ApprovalNever  Approval = "never"
	ApprovalAlways Approval = "always"
)

// Spec describes a tool to models, operators and executors.
type Spec struct {
	Name        string          `json:"name"` // ^[A-Za-z0-9_-]{1,64}$
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments: an object
	Effect      Effect          `json:"effect"`
	Approval    Approval        `json:"approval"`
	Timeout     time.Duration   `json:"-"` // of one call; 0 = the executor's default
	MaxOutput   int64           `json:"-"` // bytes of content; 0 = the executor's default
	Client      bool            `json:"client,omitzero"`
}

// Call is one use of a tool.
type Call struct {
	ID       string          // stable over retries: pass it on as an idempotency key
	Args     json.RawMessage // an object that fits the schema
	Progress func(string)    // receives output of the tool while it runs; never nil, never blocks, safe to call concurrently
	For      Caller          // the zero value if unknown

	// Emit shows an event of the call while the tool runs. The tool must return all events in [Result.Events], in the order in
	// which it has shown them: one that was shown may be lost. nil = they are shown at the end alone; see [Call.Show]. It never
	// blocks, and is safe to call concurrently.
	Emit func(event.Custom)

	// Context is the context of the request that the client sent, an object; nil = none. The model does not choose it.
	Context json.RawMessage

	// Answer is what a client did about the [Ask] of an earlier call with the same ID and arguments; nil = none.
	Answer *Answer
}

// Show passes an event of the call to Emit, if that is set.
func (c Call) Show(e event.Custom) {
	if c.Emit != nil {
		c.Emit(e)
	}
}

// Caller says for whom a call is.
type Caller struct {
	Tenant    string
	ThreadID  string
	RequestID string
	AgentID   string
}

// Result is what a call gave.
type Result struct {
	Content string // what the model reads: text, or JSON as text
	Summary string // one line for people, also with an error; "" = [Size] of Content, or the text of an error with a code

	// Media are images and files that the model sees in addition to Content, by URL or with their data: package media
	// has the rules and the limit of their total size. Invalid ones, those over the limit, and those after the first
	// [MaxMedia] are dropped, and that is logged.
	Media []event.InputPart

	// Events are written to the request's log before the result, also if the call returns an error: see
	// [event.NewCustom] for the rules. Their total size is at most [MaxEventBytes].
	Events []event.Custom

	// Ask is a question to the user; nil = the call has ended. A call with a question has no other result than Events: it is
	// made again with the answer, maybe hours later and by another process.
	Ask *Ask
}

// Ask is a question of a call to the user.
type Ask struct {
	Question string
	Schema   json.RawMessage // JSON Schema of the answer, an object with members that are not nested; nil = a text
	URL      string          // page that the user must visit; the answer only confirms that
	State    json.RawMessage // what the tool needs to continue the call, JSON; clients do not see it
	Held     bool            // the call stays open in this process, which must get the answer if it still runs
}

// Answer is the answer to an [Ask].
type Answer struct {
	Ask    Ask
	Result event.ActionResult
}

// UnknownError reports that a call may have taken effect, without a way to find out.
type UnknownError struct {
	What string // has happened, for the model
}

// Error is what has happened.
func (e *UnknownError) Error() string { return e.What }

// Size describes content whose tool has no summary of it: clients must not see the content itself.
func Size(content string) string {
	if len(content) == 1 {
		return "1 byte"
	}
	return strconv.Itoa(len(content)) + " bytes"
}

// MaxMedia is how many images and files a result may bring.
const MaxMedia = 20

// MaxEventBytes limits the total size of the types and data of a result's events. An event over the limit is dropped,
// and that is logged; a smaller one after it may still fit.
const MaxEventBytes = 128 << 10

// Tool is one tool. Call returns within a second after ctx is done. The model gets the text of an error with a code,
// but not the text of any other error. Call is safe for concurrent use.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, call Call) (Result, error)
}
