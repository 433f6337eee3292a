// Package loop drives one request: model, tools, model again, until there is an answer, a limit, or a client that must
// act first. It knows neither the bus nor HTTP; what it needs of them are the small interfaces below.
//
// Everything it does is an event, and everything it knows is the fold of those events (package transcript). So it
// starts a request and takes one over from a dead runner in the same way: it looks at what the log lacks.
//
// Read run.go for the course of a request, speech.go for chunks that become events, call.go for tools and actions,
// end.go for how requests end.
package loop

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// Log is the request's log. Both methods fail for good when somebody else has taken the request over.
type Log interface {
	// Emit gives each body the next place in the log. What comes in one call is stored as a whole or not at all, as far as
	// the log can store so much at once. It is safe for concurrent use. An error with apierr.MessageTooLarge concerns these
	// bodies alone: others may follow.
	Emit(bodies ...event.Body) error
	// Flush waits until everything emitted is stored.
	Flush(ctx context.Context) error
}

// Tools runs tool calls.
type Tools interface {
	// Call runs a call, at most once for each call ID where the tool asks for that, and gives its end. approval is the
	// action by which a person allowed it, if one did. An error ends the request. progress must not be used after Call
	// has returned. Call returns soon after ctx is done, and is safe for concurrent use.
	Call(ctx context.Context, call backend.Call, approval string, progress func(string)) (Output, error)
}

// Output is the end of a tool call.
type Output struct {
	Status  event.ToolStatus
	Content string            // what the model reads
	Ref     *event.ObjectRef  // where Content is stored already, if it is
	Media   []event.InputPart // images and files beside Content
	Summary string            // what clients see
	Elapsed time.Duration
	Events  []event.Custom // what the tool has emitted

	// Asks is what a client must do before the call can end; nil = it has ended. The next request runs it again.
	Asks *event.Continuation
}

// Objects stores payloads that are too large for the log.
type Objects interface {
	PutObject(ctx context.Context, data []byte) (event.ObjectRef, error)
}

// Actions remembers, for speed, what waits for a client. The log decides, so there is no error to handle.
type Actions interface {
	Put(ctx context.Context, actions []event.Continuation)
}

// Steer is what a user says to a request that runs.
type Steer struct {
	ID       string
	Messages []event.InputMessage
}

// ErrHandOver is how [Run] ends when the request is left to another runner at the edge of a step.
var ErrHandOver = errors.New("the request is handed over to another runner")

// Abort is the cause with which a request's context is cancelled when a client has stopped it.
type Abort struct{ Reason string }

// Error makes an abort a cancellation's cause.
func (a *Abort) Error() string { return "aborted: " + a.Reason }

// Agent is the configuration that a request runs with.
type Agent struct {
	Name       string
	Model      string
	System     string
	Tools      []tool.Spec // of servers and clients, and AskUser, Planning and FinalAnswer where the agent may use them
	MaxTokens  int
	Thinking   int
	Options    jsontext.Value
	CompressAt int64         // tokens of a conversation from which on its older part is summarised; 0 = never
	Turns      int           // of the model; the answer then ends with max_turns
	Tokens     int64         // input and output; 0 = no limit
	CostUSD    float64       // 0 = no limit
	Time       time.Duration // since the first event of the request
	ActionTTL  time.Duration // how long a client has to act

	FailOnCrash bool // end a request whose runner died, rather than go on with it
	AskUnknown  bool // ask the user whether to run an unsafe call again that ended nobody knows how
}

// AskUser is the tool by which a model asks the user a question: its result is the answer.
func AskUser() tool.Spec {
	return tool.Spec{
		Name:        "ask_user",
		Description: "Asks the user a question and gives the answer. Use it only when you cannot go on without.",
		Schema: jsontext.Value(`{"type":"object","properties":{"question":{"type":"string"}},` +
			`"required":["question"],"additionalProperties":false}`),
		Effect:   tool.EffectNone,
		Approval: tool.ApprovalNever,
		Client:   true,
	}
}

// Request is one request and all that serves it.
type Request struct {
	RequestID string
	ThreadID  string
	UserID    string // who asks
	Workspace string // folder that the agent works in; "" = the backend's own
	Epoch     uint64 // of the claim
	Agent     Agent
	State     *transcript.State // the thread's earlier requests and this one's log so far; the loop goes on with it

	Backend backend.Backend
	Log     Log
	Tools   Tools
	Agents  Agents // nil = the agent calls no others
	Objects Objects
	Actions Actions
	Asked   func(ctx context.Context) (*Abort, []Steer)         // what users have asked so far; nil = there is no abort
	Leave   <-chan struct{}                                     // closed = hand the request over at the next edge of a step
	Price   func(model string, usage event.Usage) (usd float64) // 0 = not known
	Suits   func(event.Custom) error                            // says why an application's event must not be told; nil = all may
	Logger  *slog.Logger

	// Now is the clock by which the events of State were stamped; nil = time.Now. Everything that may have been stamped by
	// another process is compared with it.
	Now func() time.Time
}
