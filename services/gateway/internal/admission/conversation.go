package admission

import (
	"context"
	"errors"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/go-json-experiment/json"
)

// resolve fills a from the whole conversation of its client.
//
// A thread without a request imports the conversation: the messages after the last one of the assistant or a tool are the
// new input, those before it are the history. On any other thread the stored conversation has priority, and what the client has
// of it is ignored. See [Acceptor.added] for what is new there.
func (d *Acceptor) resolve(ctx context.Context, c Call, a record.Accepted) (record.Accepted, error) {
	if len(c.Conversation) == 0 && len(a.Request.Context.ActionResults) == 0 {
		return a, apierr.New(apierr.InvalidMessageFormat, "messages is empty; send at least one message of the user")
	}
	a.Request.Messages = []event.InputMessage{}
	var thread bus.ThreadRecord
	if c.Key != "" || a.Request.ThreadID != "" {
		var err error
		if thread, err = d.thread(ctx, c, a); err != nil {
			return a, authz.Unavailable(err)
		}
	}
	if thread.RequestID == "" {
		return imported(c.Conversation, a)
	}
	return d.added(ctx, c, thread, a)
}

// imported divides a conversation into the history and the input of the first request of a thread.
func imported(conversation []event.HistoryMessage, a record.Accepted) (record.Accepted, error) {
	cut := len(conversation)
	for cut > 0 && conversation[cut-1].Role == event.RoleUser {
		cut--
	}
	if cut == len(conversation) && cut > 0 && conversation[cut-1].Role == event.RoleAssistant {
		return a, apierr.New(apierr.InvalidMessageFormat,
			"messages[%d] is of the assistant; the last message must be of the user, or the result of a tool", cut-1)
	}
	a.History = slices.Clone(conversation[:cut])
	a.Request.Messages = append(a.Request.Messages, inputs(conversation[cut:])...)
	return a, nil
}

// inputs returns the messages of the user among messages.
func inputs(messages []event.HistoryMessage) []event.InputMessage {
	var users []event.InputMessage
	for _, m := range messages {
		if m.Role == event.RoleUser {
			users = append(users, event.InputMessage{ID: m.ID, Role: m.Role, Content: m.Content})
		}
	}
	return users
}

// added takes what the client has added to the stored conversation of a thread: of the messages after its last one of the
// assistant, those of the user that follow the newest one that is stored, and the results of open client tool calls. Without
// any, the request repeats the thread's last request, provided that this has produced no output.
func (d *Acceptor) added(ctx context.Context, c Call, thread bus.ThreadRecord, a record.Accepted) (record.Accepted, error) {
	tail := c.Conversation
	for i, m := range slices.Backward(tail) {
		if m.Role == event.RoleAssistant {
			tail = tail[i+1:]
			break
		}
	}
	stored, err := d.newestInput(ctx, a.Tenant, thread)
	if err != nil {
		return a, authz.Unavailable(err)
	}
	users := inputs(tail)
	a.Request.Messages = append(a.Request.Messages, users[countStored(users, stored):]...)
	results, err := d.toolResults(ctx, a.Tenant, thread, tail)
	if err != nil {
		return a, authz.Unavailable(err)
	}
	for _, r := range results {
		if !slices.ContainsFunc(a.Request.Context.ActionResults, func(given event.ActionResult) bool { return given.ActionID == r.ActionID }) {
			a.Request.Context.ActionResults = append(slices.Clip(a.Request.Context.ActionResults), r)
		}
	}
	if len(a.Request.Messages) > 0 || len(a.Request.Context.ActionResults) > 0 {
		return a, nil
	}
	err = d.checkRepeatable(ctx, a.Tenant, thread)
	if c.Repeat && len(users) > 0 && apierr.CodeOf(err) == apierr.InvalidMessageFormat {
		a.Request.Messages = users[len(users)-1:]
		return a, nil
	}
	return a, err
}

// newestInput returns the messages that the thread's last request brought.
func (d *Acceptor) newestInput(ctx context.Context, tenant string, thread bus.ThreadRecord) ([]event.InputMessage, error) {
	log := bus.LogID{Tenant: tenant, RequestID: thread.RequestID}
	accepted, err := d.bus.Accepted(ctx, log)
	if err == nil {
		return accepted.Request.Messages, nil
	}
	if !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	var stored []event.InputMessage
	err = d.eachEvent(ctx, log, func(body event.Body) {
		if input, ok := body.(event.Input); ok && input.SteerID == "" {
			stored = input.Messages
		}
	}, event.NameInput)
	return stored, err
}

// countStored returns how many of the users' messages, from the first one on, are stored: up to the one that is the newest
// stored message. One with its id and another text is new: the user has edited it. Without ids messages are compared by their
// text, and the last one counts as new: a user may repeat it.
func countStored(users, stored []event.InputMessage) int {
	if len(stored) == 0 {
		return 0
	}
	newest := stored[len(stored)-1]
	for i, m := range slices.Backward(users) {
		if m.ID != "" && newest.ID != "" {
			if m.ID != newest.ID {
				continue
			}
			if m.Content.Text() != newest.Content.Text() {
				return i
			}
			return i + 1
		}
		if i < len(users)-1 && len(m.Content) == len(newest.Content) && m.Content.Text() == newest.Content.Text() {
			return i + 1
		}
	}
	return 0
}

// toolResults returns the results of the open client tool calls that tool messages answer. Others are ignored: the stored
// conversation has a result for them.
func (d *Acceptor) toolResults(
	ctx context.Context, tenant string, thread bus.ThreadRecord, tail []event.HistoryMessage,
) ([]event.ActionResult, error) {
	var results []event.ActionResult
	var wanted []string
	for _, m := range tail {
		if m.Role != event.RoleTool {
			continue
		}
		r, err := toolResult(m)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(wanted, r.ActionID) {
			results, wanted = append(results, r), append(wanted, r.ActionID)
		}
	}
	if len(results) == 0 {
		return nil, nil
	}
	open, err := d.openActions(ctx, tenant, thread, wanted)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(results, func(r event.ActionResult) bool {
		action, announced := open[r.ActionID]
		expired := !action.ExpiresAt.IsZero() && d.bus.Now().After(action.ExpiresAt)
		return !announced || expired || action.Kind != event.ContinueTool
	}), nil
}

// toolResult returns the result of the action for which the call of a tool message waits.
func toolResult(m event.HistoryMessage) (event.ActionResult, error) {
	r := event.ActionResult{ActionID: id.Derive(id.Action, m.ToolCallID), Status: event.ActionSuccess}
	text := m.Content.Text()
	switch m.Status {
	case "", event.ToolSuccess:
		result, err := json.Marshal(text)
		r.Result = result
		return r, err
	case event.ToolDenied:
		r.Status, r.Error = event.ActionDenied, text
	default:
		r.Status, r.Error = event.ActionError, text
	}
	return r, nil
}

// checkRepeatable returns why the thread's last request cannot be repeated: it has produced output, or it has not ended.
func (d *Acceptor) checkRepeatable(ctx context.Context, tenant string, thread bus.ThreadRecord) error {
	output, ended := false, false
	err := d.eachEvent(ctx, bus.LogID{Tenant: tenant, RequestID: thread.RequestID}, func(body event.Body) {
		ended = ended || event.IsTerminal(body)
		output = output || !event.IsTerminal(body)
	}, event.NameText, event.NameToolCall, event.NameThinking, event.NameFinalAnswer, event.NameDone, event.NameError, event.NameAborted)
	if err != nil {
		return authz.Unavailable(err)
	}
	if output && ended {
		return apierr.New(apierr.InvalidMessageFormat,
			"messages brings nothing new: the thread has a response to its last message; add a message of the user")
	}
	return nil
}

// eachEvent visits the events of these names in a log.
func (d *Acceptor) eachEvent(ctx context.Context, log bus.LogID, visit func(event.Body), names ...event.Name) error {
	return d.eachFrame(ctx, log, func(f event.Frame) error {
		for line := range f.Each() {
			if !slices.Contains(names, line.Name) {
				continue
			}
			e, err := event.Decode(line.JSON)
			if err != nil {
				return err
			}
			visit(e.Body)
		}
		return nil
	})
}
