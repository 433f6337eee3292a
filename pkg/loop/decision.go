package loop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/agentbus/agentbus/pkg/weaken"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decision is what to do about a call: wait for a client, use an output without a run, or run it.
type decision struct {
	wait     *event.Continuation
	announce bool // this request's log does not have wait yet
	output   *Output
	approval string // id of the action that allowed the call, or answered its question
}

// decide decides about a call that has no result.
func (r *run) decide(c transcript.Call) (decision, error) {
	switch {
	case c.Invalid:
		return fixedOutput(event.ToolFailed, "the arguments were not a JSON object; call %s again with valid ones", c.Name), nil
	case c.Action == nil:
		return r.decideNew(c)
	case c.Action.Answer != nil:
		return r.decideAnswered(c), nil
	case !c.Action.ExpiresAt.IsZero() && !r.Now().Before(c.Action.ExpiresAt):
		return unansweredAction(c, "expired: no client acted in time"), nil
	case !c.Own && r.State.Spoken():
		return unansweredAction(c, "superseded by a new message"), nil
	default:
		return decision{wait: &c.Action.Continuation, announce: c.Action.RequestID != r.RequestID}, nil
	}
}

// decideNew decides about a call that the model has just made.
func (r *run) decideNew(c transcript.Call) (decision, error) {
	if c.Gate == "" || c.Gate == event.ContinueApproval && !c.ByAgent {
		if _, ok := r.spec(c.Name); !ok {
			return r.unknown(c.Name), nil
		}
	}
	if c.Gate == "" {
		return decision{}, nil
	}
	action, err := r.action(c, c.Gate, id.Derive(id.Action, c.ID))
	action.Payload.Question = question(c)
	return decision{announce: true, wait: &action}, err
}

// askAgain asks whether to repeat a call. Each request that runs it may ask again.
func (r *run) askAgain(c transcript.Call) (event.Continuation, error) {
	action, err := r.action(c, event.ContinueApproval, id.Derive(id.Action, r.RequestID, c.ID))
	action.Payload.Again = true
	action.Payload.Question = fmt.Sprintf("%s has run, but its outcome is unknown. Run it again?", c.Name)
	return action, err
}

func (r *run) action(c transcript.Call, kind event.ContinuationKind, actionID string) (event.Continuation, error) {
	hash, err := record.HashArgs(c.Args)
	return event.Continuation{
		ActionID:  actionID,
		Kind:      kind,
		Payload:   event.ContinuationAction{ToolCallID: c.ID, Tool: c.Name, Args: c.Args, ArgsHash: hash},
		ExpiresAt: r.Now().Add(r.Agent.ActionTTL).UTC().Truncate(time.Millisecond),
	}, err
}

// decideAnswered decides about a call that a client has acted on.
func (r *run) decideAnswered(c transcript.Call) decision {
	action, answer := c.Action, c.Action.Answer
	switch {
	case action.Payload.Agent != nil:
		return decision{} // the agent that asked handles the answer
	case action.Payload.AskedIn != "" && action.Kind == event.ContinueInput:
		return r.decideAsked(c)
	case action.Payload.Again && answer.Status != event.ActionSuccess:
		return unansweredAction(c, "the user did not let it run again"+reasonSuffix(answer.Error))
	case answer.Status == event.ActionDenied && action.Kind == event.ContinueInput:
		return fixedOutput(event.ToolDenied, "the user declined to answer%s", reasonSuffix(answer.Error))
	case answer.Status == event.ActionDenied:
		return fixedOutput(event.ToolDenied, "the user denied this call%s", reasonSuffix(answer.Error))
	case answer.Status == event.ActionError:
		return fixedOutput(event.ToolFailed, "%s", cmp.Or(answer.Error, "the client reported an error without saying which"))
	case action.Kind == event.ContinueInput:
		return decision{output: &Output{Status: event.ToolSuccess, Content: content(answer.Result), Summary: "the user answered"}}
	case action.Kind == event.ContinueTool:
		result := content(answer.Result)
		return decision{output: &Output{Status: event.ToolSuccess, Content: result, Summary: tool.Size(result)}}
	}
	if c.ByAgent {
		return fixedOutput(event.ToolSuccess, "the user allowed this call")
	}
	if hash, err := record.HashArgs(c.Args); err != nil || hash != action.Payload.ArgsHash || weaken.Without(weaken.Approvals) {
		return fixedOutput(event.ToolDenied, "the approval was for other arguments")
	}
	if _, ok := r.spec(c.Name); !ok {
		return r.unknown(c.Name)
	}
	return decision{approval: action.ActionID}
}

// decideAsked decides about a call whose tool has asked the user: the tool gets the answer, also if that is a denial.
func (r *run) decideAsked(c transcript.Call) decision {
	if _, ok := r.spec(c.Name); !ok {
		return r.unknown(c.Name)
	}
	return decision{approval: c.Action.ActionID}
}

// unansweredAction returns the end of a call whose action was not completed. A call that has run keeps its unknown outcome.
func unansweredAction(c transcript.Call, why string) decision {
	if c.Action.Payload.Again {
		return fixedOutput(event.ToolUnknown, "it was interrupted and may or may not have taken effect; %s", why)
	}
	if c.Action.Payload.AskedIn != "" {
		return fixedOutput(event.ToolDenied, "the tool has asked the user, and the question was not answered (%s); the call did not finish", why)
	}
	return fixedOutput(event.ToolDenied, "%s", why)
}

// gate returns which action a call needs before it has a result. The backend's gate has priority, except for client
// tools, which only the client can run.
func (r *run) gate(name string, asked backend.Gate) event.ContinuationKind {
	spec, known := r.spec(name)
	switch {
	case asked == backend.GateInput || known && name == AskUser().Name:
		return event.ContinueInput
	case asked == backend.GateClient || spec.Client:
		return event.ContinueTool
	case asked == backend.GateApproval || asked == backend.GateAgentApproval || spec.Approval == tool.ApprovalAlways:
		return event.ContinueApproval
	default:
		return ""
	}
}

func (r *run) spec(name string) (tool.Spec, bool) {
	i := slices.IndexFunc(r.Agent.Tools, func(s tool.Spec) bool { return s.Name == name })
	if i < 0 {
		return tool.Spec{}, false
	}
	return r.Agent.Tools[i], true
}

func (r *run) unknown(name string) decision {
	names := make([]string, 0, len(r.Agent.Tools))
	for _, s := range r.Agent.Tools {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return fixedOutput(event.ToolFailed, "there is no tool %.64q; this agent has no tools", name)
	}
	return fixedOutput(event.ToolFailed, "there is no tool %.64q; there are %s", name, strings.Join(names, ", "))
}

// fixedOutput is an output whose content is also the summary for clients.
func fixedOutput(status event.ToolStatus, format string, args ...any) decision {
	text := fmt.Sprintf(format, args...)
	return decision{output: &Output{Status: status, Content: text, Summary: summary(text)}}
}

func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// content returns a client's result as the model reads it: a string unquoted, any other JSON as text.
func content(result json.RawMessage) string {
	var text string
	if jsontext.Value(result).Kind() == '"' && jsonv2.Unmarshal(result, &text) == nil {
		return text
	}
	return string(result)
}

// question returns the question of a call of AskUser.
func question(c transcript.Call) string {
	var args struct {
		Question string `json:"question"`
	}
	if c.Gate != event.ContinueInput || jsonv2.Unmarshal(c.Args, &args) != nil {
		return ""
	}
	return args.Question
}
