package acp

import (
	"cmp"
	"slices"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
)

// rules decide about calls in one turn.
type rules struct {
	mode    permission.Mode
	asks    bool     // the user decides about what the mode does not permit
	tools   []string // that need no permission
	decided *permission.Decisions
}

// rules are those of a turn: the operator's, or those of a task, and what the user has decided since the turn before. A program
// asks for some of its calls only, so a task without tools is refused.
func (b *Backend) rules(turn backend.Turn) (rules, error) {
	task := permission.TaskOf(turn.Options)
	if task.Tools != nil && len(task.Tools) == 0 {
		return rules{}, apierr.New(apierr.InvalidMessageFormat, "%s cannot run without tools; leave allowedTools out", b.name())
	}
	return rules{
		mode: cmp.Or(task.Mode, b.options.Permissions), asks: task.Asks(b.options.Permissions), tools: task.Tools,
		decided: permission.Of(turn.Messages),
	}, nil
}

// permit answers a request for a permission.
func (r *run) permit(p protocol.PermissionRequest) (protocol.PermissionOutcome, error) {
	if r.replaying {
		return choose(p.Options, protocol.RejectOnce, protocol.RejectAlways), nil
	}
	t := r.merge(p.ToolCall)
	call := permission.Call{Tool: t.name(), Args: t.args()}
	verdict := r.rules.decided.Take(call)
	once := choose(p.Options, protocol.AllowOnce)
	switch {
	case verdict == permission.Allowed && once.OptionID != "":
		return once, nil
	case verdict == permission.Denied:
	case r.rules.allow(call, t.Kind):
		return choose(p.Options, protocol.AllowOnce, protocol.AllowAlways), nil
	case r.rules.asks && once.OptionID != "":
		return r.ask(t, call)
	case r.rules.asks: // a permission is for one call
		err := r.say(backend.Warning(r.session.backend.name() + " asks to allow all calls of a kind at once; that is denied, and the user is not asked"))
		if err != nil {
			return protocol.PermissionOutcome{}, err
		}
	}
	t.denied = true
	if err := r.start(t); err != nil {
		return protocol.PermissionOutcome{}, err
	}
	return choose(p.Options, protocol.RejectOnce, protocol.RejectAlways), nil
}

// ask cancels the turn, which then ends with an approval of the call.
func (r *run) ask(t *toolCall, call permission.Call) (protocol.PermissionOutcome, error) {
	t.waits = true
	r.asked = append(r.asked, call)
	r.cancelTurn()
	return protocol.PermissionOutcome{Outcome: protocol.OutcomeCancelled}, nil
}

// allow reports whether a call needs no decision of the user.
func (r *rules) allow(call permission.Call, kind string) bool {
	reads := slices.Contains([]string{protocol.KindRead, protocol.KindSearch, protocol.KindThink}, kind)
	switch {
	case slices.Contains(r.tools, call.Tool), r.mode == permission.All:
		return true
	case r.mode == permission.Edits:
		return reads || kind == protocol.KindEdit || kind == protocol.KindMove
	case r.mode == permission.Reading:
		return reads
	default:
		return false
	}
}

// choose selects the first option of one of the kinds; without one the request counts as cancelled.
func choose(options []protocol.PermissionOption, kinds ...string) protocol.PermissionOutcome {
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return protocol.PermissionOutcome{Outcome: protocol.OutcomeSelected, OptionID: o.OptionID}
			}
		}
	}
	return protocol.PermissionOutcome{Outcome: protocol.OutcomeCancelled}
}
