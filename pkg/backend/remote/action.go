package remote

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	jsonv2 "github.com/go-json-experiment/json"
)

// require ends the turn with a call for each action of the task. The signature of a call names the action, and the call's result
// is what the client decides. The task continues in the next request, from the place of the event.
func (t *turn) require(number uint64, r remoteagent.ActionRequired) error {
	for i, a := range r.Actions {
		gate, args := backend.GateAgentApproval, a.Input
		if a.Kind == event.ContinueInput {
			gate = backend.GateInput
		}
		if len(args) == 0 {
			text, err := jsonv2.Marshal(struct {
				Question string `json:"question,omitempty"`
			}{a.Question})
			if err != nil {
				return err
			}
			args = json.RawMessage(text)
		}
		for _, c := range []backend.Chunk{
			backend.CallStart{Index: i, Name: a.Tool, Gate: gate}, backend.CallDelta{Index: i, Args: string(args)},
			backend.CallSignature{Index: i, Signature: sign(t.place.task, a)},
		} {
			if err := t.say(c); err != nil {
				return err
			}
		}
	}
	used := spent(r.Usage, r.CostUSD)
	t.outcome.Finish, t.outcome.Usage = event.FinishToolCalls, used.Sub(t.base)
	t.place.after, t.place.said, t.place.used, t.place.wait = number, false, used, waiting
	t.outcome.State = t.place.state()
	return nil
}

func sign(task string, a remoteagent.Action) string {
	return task + "/" + string(a.Kind) + "/" + a.ActionID
}

// resume prepares the answer to a task that waits. If the user has given no result and says something else instead, the task
// is cancelled, and a new one follows.
func (s *session) resume(ctx context.Context, turn backend.Turn, emit backend.Emit) error {
	answer, given := replyTo(s.place.task, turn.Messages)
	if !given {
		return s.abandon(ctx)
	}
	s.reply = answer
	s.place.wait, s.place.request = answering, s.start.RequestID
	return emit(s.place.state())
}

// abandon cancels the task. If the agent does not answer, the hub cancels it later.
func (s *session) abandon(ctx context.Context) error {
	err := s.repeatWhileSilent(ctx, func() error {
		_, err := s.Hub.CancelTask(ctx, hubapi.TaskRef{Tenant: s.Tenant, AgentID: s.Agent, TaskID: s.place.task})
		return err
	})
	if err != nil && apierr.CodeOf(err) != apierr.RequestNotFound {
		return err
	}
	s.place = place{session: s.place.session, request: s.start.RequestID}
	return nil
}

// answer has the hub give the task its results, and reports whether the agent has them. Results that the task cannot use any
// more are dropped: another client has given some, or they have expired.
func (s *session) answer(ctx context.Context, t *turn) (reached bool, err error) {
	err = s.repeatWhileSilent(ctx, func() error {
		_, err := s.Hub.AnswerTask(ctx, hubapi.Answer{
			TaskRef: hubapi.TaskRef{Tenant: s.Tenant, AgentID: s.Agent, TaskID: t.place.task}, Answer: s.reply,
		})
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return false, err
	case apierr.CodeOf(err) == apierr.Unavailable:
		return false, nil
	case apierr.CodeOf(err) == apierr.InvalidActionID:
		if err := t.warn("The result of the action had no effect: " + apierr.From(err).Message); err != nil {
			return false, err
		}
	default:
		return false, err
	}
	s.reply, t.place.wait = remoteagent.Answer{}, ""
	return true, nil
}

// replyTo returns the results that a conversation has for the newest actions of a task, with what the user said since. It
// returns false if the user has said something instead of giving results.
func replyTo(task string, messages []backend.Message) (answer remoteagent.Answer, given bool) {
	end := len(messages)
	for end > 0 && messages[end-1].Role == backend.User {
		end--
	}
	actions := newestActions(task, messages[:end])
	for _, m := range messages[:end] {
		for _, p := range m.Parts {
			if r, ok := p.(backend.Result); ok && actions[r.ID] != (action{}) {
				answer.ActionResults = append(answer.ActionResults, actions[r.ID].result(r))
			}
		}
	}
	answer.Message = prompt.Of(messages[end:], maxPrompt)
	given = answer.Message == "" || slices.ContainsFunc(answer.ActionResults, func(r event.ActionResult) bool {
		return r.Status != event.ActionDenied
	})
	return answer, given && len(answer.ActionResults) > 0
}

// action is what the signature of a call names.
type action struct {
	kind event.ContinuationKind
	id   string
}

// newestActions returns the actions of the newest message that has calls for actions of the task, by call.
func newestActions(task string, messages []backend.Message) map[string]action {
	actions := map[string]action{}
	for _, m := range slices.Backward(messages) {
		for _, p := range m.Parts {
			call, _ := p.(backend.Call)
			if named, ok := strings.CutPrefix(call.Signature, task+"/"); ok {
				kind, id, _ := strings.Cut(named, "/")
				actions[call.ID] = action{event.ContinuationKind(kind), id}
			}
		}
		if len(actions) > 0 {
			break
		}
	}
	return actions
}

// result converts the result of a call. The reason of a denial follows the first colon of its text.
func (a action) result(r backend.Result) event.ActionResult {
	result := event.ActionResult{ActionID: a.id, Status: event.ActionDenied}
	switch r.Status {
	case event.ToolSuccess:
		result.Status = event.ActionSuccess
		if text, err := jsonv2.Marshal(r.Content); err == nil && a.kind == event.ContinueInput {
			result.Result = json.RawMessage(text)
		}
	case event.ToolFailed:
		result.Status, result.Error = event.ActionError, r.Content
	default:
		_, result.Error, _ = strings.Cut(r.Content, ": ")
	}
	return result
}
