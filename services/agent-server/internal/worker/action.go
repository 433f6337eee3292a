package worker

import (
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/taskevents"
)

// awaitActions returns [ErrNeedsAction], and announces the actions, as long as one of them has no result. It is called between two
// requests of the task.
func (t *task) awaitActions(ctx context.Context) error {
	asked := t.asked()
	waits := t.recorder.task().Status == remoteagent.NeedsAction
	if len(remoteagent.Unanswered(asked, t.Answers, time.Now())) == 0 {
		if waits {
			t.recorder.begin()
		}
		return nil
	}
	if !waits {
		t.recorder.ask(asked)
	}
	if err := t.recorder.Flush(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return ErrNeedsAction
}

// asked lists the actions for which the task waits, or has waited, in its newest request.
func (t *task) asked() (actions []remoteagent.Action) {
	for _, a := range t.state.Actions() {
		if !t.asks(a.Continuation) {
			continue
		}
		actions = append(actions, remoteagent.Action{
			ActionID: a.ActionID, Kind: a.Kind, Tool: a.Payload.Tool, ToolCallID: a.Payload.ToolCallID, Input: a.Payload.Args,
			Question: a.Payload.Question, RequestedAt: a.ExpiresAt.Add(-t.agent.ActionTTL), ExpiresAt: a.ExpiresAt,
		})
	}
	return actions
}

// asks reports whether the task waits for an action.
func (t *task) asks(c event.Continuation) bool {
	return t.Assignment.Approvals == remoteagent.ApprovalsAsk && !t.allows(c) &&
		(c.Kind == event.ContinueApproval || c.Kind == event.ContinueInput)
}

// allows reports whether the permission mode of the task gives an approval.
func (t *task) allows(c event.Continuation) bool {
	mode := t.mode()
	return c.Kind == event.ContinueApproval &&
		(mode == remoteagent.PermitAll || mode == remoteagent.PermitEdits && taskevents.Edits(c.Payload.Tool))
}

func (t *task) mode() remoteagent.PermissionMode {
	return t.worker.deps.Permissions.Mode(t.Assignment.PermissionMode)
}

// result returns the result of an action; false = it has none, because it has expired or a message came instead.
func (t *task) result(c event.Continuation) (event.ActionResult, bool) {
	if !t.asks(c) {
		return t.decide(c), true
	}
	return remoteagent.ResultOf(t.Answers, c.ActionID)
}
