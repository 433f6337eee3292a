package wire

import (
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// validate checks what the types do not express, and converts images and files to the form in which they are stored.
func validate(r event.AgentRequest) error {
	if r.Messages == nil {
		return invalid("messages is missing; send [] when context.actionResults says it all, else something like %s", example)
	}
	if len(r.Messages) == 0 && len(r.Context.ActionResults) == 0 {
		return invalid("messages is empty; it may be only when there are context.actionResults")
	}
	for i, m := range r.Messages {
		if err := validateMessage("messages["+strconv.Itoa(i)+"]", m); err != nil {
			return err
		}
	}
	return validateResults(r)
}

func validateMessage(where string, m event.InputMessage) error {
	if m.Role != event.RoleUser {
		return invalid("%s.role is %.40q; only \"user\" may speak: the agent's own instructions are part of its configuration", where, m.Role)
	}
	if len(m.Content) == 0 {
		return invalid("%s.content is missing or empty; send a string, or parts such as {\"type\":\"text\",\"text\":\"hi\"}", where)
	}
	content, err := codec.CheckContent(where+".content", m.Content)
	copy(m.Content, content)
	return err
}

func validateResults(r event.AgentRequest) error {
	results := r.Context.ActionResults
	if len(results) == 0 {
		return nil
	}
	if r.ThreadID == "" {
		return invalid("context.actionResults needs threadId: the thread that asked for the actions")
	}
	seen := make(map[string]bool, len(results))
	for i, a := range results {
		where := "context.actionResults[" + strconv.Itoa(i) + "]"
		if !id.Valid(a.ActionID) {
			return invalid("%s.actionId %.80q must match ^[A-Za-z0-9_-]{1,64}$", where, a.ActionID)
		}
		if seen[a.ActionID] {
			return invalid("%s repeats actionId %s; an action has one result", where, a.ActionID)
		}
		seen[a.ActionID] = true
		switch a.Status {
		case event.ActionSuccess, event.ActionError, event.ActionDenied:
		default:
			return invalid("%s.status is %.40q; use \"success\", \"error\" or \"denied\"", where, a.Status)
		}
	}
	return nil
}
