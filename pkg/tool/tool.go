// Package tool is the door to what agents can do. A tool-executor, or an agent-server, runs what stands behind it; the
// model sees the [Spec].
package tool

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// Effect says what a call leaves behind, and so what may be done when its outcome is unknown.
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
	Name        string         `json:"name"` // ^[A-Za-z0-9_-]{1,64}$
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"` // JSON Schema of the arguments: an object
	Effect      Effect         `json:"effect"`
	Approval    Approval       `json:"approval"`
	Timeout     time.Duration  `json:"-"` // of one call; 0 = the executor's default
	MaxOutput   int64          `json:"-"` // bytes of content; 0 = the executor's default
	Client      bool           `json:"client,omitzero"`
}

// Call is one use of a tool.
type Call struct {
	ID       string         // stable over retries: pass it on as an idempotency key
	Args     jsontext.Value // an object that fits the schema
	Progress func(string)   // tells whoever watches what the tool prints; never nil, never blocks, safe to call concurrently
	For      Caller         // the zero value where nobody knows
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
	Summary string // one line for people; "" = the start of Content

	// Media are images and files that the model sees beside Content, by URL or with their data: package media says what they may
	// be, and the most that all of them may have together. Those that may not, have no room, or are behind the first
	// [MaxMedia] are dropped, and operators are told.
	Media []event.InputPart

	// Events become part of the request's log, before the result, also when the call returns an error beside them: see
	// [event.NewCustom] for what they may be. All of them together have room for [MaxEventBytes].
	Events []event.Custom
}

// MaxMedia is how many images and files a result may bring.
const MaxMedia = 20

// MaxEventBytes is the most that the types and data of a result's events may be. One that has no room is dropped, and
// operators are told; a smaller one behind it may still have some.
const MaxEventBytes = 128 << 10

// Tool is one ability. Call returns when ctx is done, at the latest a second later. An error with a fault code is told
// to the model as it is; any other error is told without its text. Call is safe for concurrent use.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, call Call) (Result, error)
}
