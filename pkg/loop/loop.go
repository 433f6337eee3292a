// Package loop runs one request: it calls the model, then tools, then the model again, until there is an answer, a
// limit is reached, or a client must act. It depends on neither the bus nor HTTP, but on the small interfaces below.
//
// Every result is an event, and the state is the fold of these events (package transcript). Therefore a new request and
// one that is taken over from a crashed runner start in the same way: from what the log lacks.
//
// Read run.go for the steps of a request, turn_writer.go for how chunks become events, call.go for tools and actions,
// end.go for how requests end.
package loop

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/transcript"
)

// Log is the request's log. After another runner has claimed the request, both methods always fail.
type Log interface {
	// Emit assigns the next event number to each body. The bodies of one call are stored atomically, up to the largest
	// message of the log. It is safe for concurrent use. An apierr.MessageTooLarge error concerns these bodies only:
	// later calls may succeed.
	Emit(bodies ...event.Body) error
	// Flush waits until everything emitted is stored.
	Flush(ctx context.Context) error
}

// Tools runs tool calls.
type Tools interface {
	// Call runs a call and returns its output; tools that require it run at most once for each call ID. approval is the
	// id of the action that allowed the call, or by which the user answered its question, or "". An error ends the request.
	// progress must not be called after Call has returned. Call returns soon after ctx is done, and is safe for concurrent use.
	Call(ctx context.Context, call backend.Call, approval string, progress func(Progress)) (Output, error)
}

// Progress is what a tool reports while it runs. Some may be lost.
type Progress struct {
	Delta string        // output
	Event *event.Custom // nil = none
	Index int           // of Event in Output.Events
}

// Output is the result of a tool call.
type Output struct {
	Status  event.ToolStatus
	Content string            // what the model reads
	Ref     *event.ObjectRef  // where Content is stored, if it is in the object store
	Media   []event.InputPart // images and files, in addition to Content
	Summary string            // what clients see
	Elapsed time.Duration
	Events  []event.Custom // custom events of the tool

	// Asks is the action that the call needs from a client; nil if it has ended. The next request repeats the call.
	Asks *event.Continuation
}

// Objects stores payloads that are too large for the log.
type Objects interface {
	PutObject(ctx context.Context, data []byte) (event.ObjectRef, error)
}

// Actions caches the actions that wait for a client. The log is authoritative, so Put returns no error.
type Actions interface {
	Put(ctx context.Context, actions []event.Continuation)
}

// Steer is a message of a user to a running request.
type Steer struct {
	ID       string
	Messages []event.InputMessage
}

// ErrHandOver is returned by [Run] if it gives up the request at a step boundary for another runner.
var ErrHandOver = errors.New("the request is handed over to another runner")

// Abort is the cause with which a request's context is cancelled after a client has aborted it.
type Abort struct{ Reason string }

// Error implements error, so that an abort can be the cause of a cancellation.
func (a *Abort) Error() string { return "aborted: " + a.Reason }

// Is makes an abort a [backend.ErrEnds].
func (*Abort) Is(target error) bool { return target == backend.ErrEnds }

// Agent is the configuration that a request runs with.
type Agent struct {
	Name       string
	Model      string
	Fallback   []string // models that answer where the one before does not
	System     string
	Tools      []tool.Spec // of servers and clients, and AskUser, Planning and FinalAnswer if the agent may use them
	MaxTokens  int
	Thinking   int
	Effort     backend.Effort
	Options    json.RawMessage
	Request    event.RequestOptions // of the request; MaxTokens has been applied to that of the agent
	CompressAt int64                // size of a conversation, in tokens, from which its older part is summarised; 0 = never
	Turns      int                  // limit of model turns; the answer then ends with max_turns
	Tokens     int64                // input and output; 0 = no limit
	CostUSD    float64              // 0 = no limit
	Time       time.Duration        // since the first event of the request
	ActionTTL  time.Duration        // time for a client to act

	FailOnCrash bool // end a request whose runner crashed instead of continuing it
	AskUnknown  bool // ask the user whether to repeat an unsafe call whose outcome is unknown
}

// AskUser is the tool with which a model asks the user a question. Its result is the answer.
func AskUser() tool.Spec {
	return tool.Spec{
		Name:        "ask_user",
		Description: "Asks the user a question and returns the answer. Use it only if you cannot continue without the answer.",
		Schema: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"}},` +
			`"required":["question"],"additionalProperties":false}`),
		Effect:   tool.EffectNone,
		Approval: tool.ApprovalNever,
		Client:   true,
	}
}

// Request is a request and the dependencies of its run.
type Request struct {
	RequestID string
	ThreadID  string
	UserID    string // the user who sent the request
	Workspace string // folder of the agent; "" = the backend's default
	Epoch     uint64 // of the claim
	Agent     Agent
	State     *transcript.State // fold of the thread's earlier requests and of this one's log so far; the loop updates it

	Backend        backend.Backend
	Log            Log
	Tools          Tools
	Agents         Agents // nil = the agent cannot call other agents
	Objects        Objects
	Actions        Actions
	ReadCommands   func(ctx context.Context) (*Abort, []Steer)                     // returns the abort, if any, and the steers so far
	HandOver       <-chan struct{}                                                 // closed = hand the request over at the next step boundary
	Price          func(model string, usage event.Usage) (usd float64, known bool) // of one answer
	ValidateCustom func(event.Custom) error                                        // returns why a custom event must not be written; nil = all are allowed
	Logger         *slog.Logger

	// Now is the clock that stamped the events of State; nil = time.Now. It is used for all comparisons with times that
	// another process may have stamped.
	Now func() time.Time
}
