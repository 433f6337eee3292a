package acp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// Permissions say what becomes of a call for which the program asks the user.
type Permissions string

// The permissions. Those that are not "ask" are the permission modes of tasks (TARS hub protocol, POST /tasks).
const (
	PermitAsk     Permissions = "ask"               // the user is asked, and the turn ends until the answer
	PermitReading Permissions = "default"           // a call that only reads is allowed
	PermitEdits   Permissions = "acceptEdits"       // and one that edits files
	PermitAll     Permissions = "bypassPermissions" // every call is allowed
)

// rules decide about calls in one turn.
type rules struct {
	mode    Permissions
	tools   []string     // that need no permission
	allowed []permission // that the user has given
}

// permission is what the user has allowed: one call.
type permission struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// permissionTool is the name of the calls by which a turn asks for permissions.
const permissionTool = "ask_permission"

// question is a call that waits for the user.
type question struct {
	Question string `json:"question"`
	permission
}

// rules are those of a turn: the operator's, or those of a task, and the user's answers to questions of the turn before.
// A program asks for some of its calls only, so a task without tools is refused.
func (b *Backend) rules(turn backend.Turn) (rules, error) {
	var task struct {
		Mode  Permissions `json:"permissionMode"`
		Tools []string    `json:"allowedTools"`
	}
	if jsonv2.Unmarshal(turn.Options, &task) != nil {
		task.Mode, task.Tools = "", nil
	}
	if task.Tools != nil && len(task.Tools) == 0 {
		return rules{}, apierr.New(apierr.InvalidMessageFormat, "%s cannot run without tools; leave allowedTools out", b.name())
	}
	return rules{mode: cmp.Or(task.Mode, b.options.Permissions), tools: task.Tools, allowed: answered(turn.Messages)}, nil
}

// answered returns what the user has allowed in the messages at the end of a conversation.
func answered(messages []backend.Message) (allowed []permission) {
	yes := map[string]bool{}
	for _, m := range slices.Backward(messages) {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Result:
				if p.Name == permissionTool && p.Status == event.ToolSuccess && agrees(p.Content) {
					yes[p.ID] = true
				}
			case backend.Call:
				var q question
				if yes[p.ID] && jsonv2.Unmarshal(p.Args, &q) == nil {
					allowed = append(allowed, q.permission)
				}
			}
		}
		if m.Role == backend.Assistant {
			break // the answers are to the newest turn
		}
	}
	return allowed
}

func agrees(answer string) bool {
	first, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(answer)), " ")
	return slices.Contains([]string{"y", "yes", "ok", "allow", "allowed", "true"}, strings.Trim(first, ".,!"))
}

// permit answers a request for a permission.
func (r *run) permit(p protocol.PermissionRequest) (protocol.PermissionOutcome, error) {
	t := r.merge(p.ToolCall)
	call := permission{Tool: t.name(), Args: t.args()}
	switch {
	case r.replaying:
		return choose(p.Options, protocol.RejectOnce, protocol.RejectAlways), nil
	case r.rules.allow(call, t.Kind):
		return choose(p.Options, protocol.AllowOnce, protocol.AllowAlways), nil
	case r.rules.mode == PermitAsk:
		t.waits = true
		r.asked = append(r.asked, question{"May " + r.session.backend.name() + " run " + call.Tool + "? (yes or no)", call})
		r.cancelTurn()
		return protocol.PermissionOutcome{Outcome: protocol.OutcomeCancelled}, nil
	}
	t.denied = true
	if err := r.start(t); err != nil {
		return protocol.PermissionOutcome{}, err
	}
	return choose(p.Options, protocol.RejectOnce, protocol.RejectAlways), nil
}

// allow reports whether a call needs no answer of the user. What the user has allowed counts once.
func (r *rules) allow(call permission, kind string) bool {
	if i := slices.IndexFunc(r.allowed, func(a permission) bool { return a.same(call) }); i >= 0 {
		r.allowed = slices.Delete(r.allowed, i, i+1)
		return true
	}
	reads := slices.Contains([]string{protocol.KindRead, protocol.KindSearch, protocol.KindThink}, kind)
	switch {
	case slices.Contains(r.tools, call.Tool), r.mode == PermitAll:
		return true
	case r.mode == PermitEdits:
		return reads || kind == protocol.KindEdit || kind == protocol.KindMove
	case r.mode == PermitReading:
		return reads
	default:
		return false
	}
}

func (p permission) same(call permission) bool {
	var a, b any
	return p.Tool == call.Tool && jsonv2.Unmarshal(p.Args, &a) == nil && jsonv2.Unmarshal(call.Args, &b) == nil && equal(a, b)
}

// equal compares two JSON values.
func equal(a, b any) bool {
	left, err := jsonv2.Marshal(a, jsonv2.Deterministic(true))
	right, err2 := jsonv2.Marshal(b, jsonv2.Deterministic(true))
	return err == nil && err2 == nil && string(left) == string(right)
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

// pose ends the turn with a call for each question, whose result is the answer of the user.
func (r *run) pose() error {
	for i, q := range r.asked {
		args, err := jsonv2.Marshal(q)
		if err != nil {
			return err
		}
		if err := r.say(backend.CallStart{Index: i, Name: permissionTool, Gate: backend.GateInput}); err != nil {
			return err
		}
		if err := r.say(backend.CallDelta{Index: i, Args: string(args)}); err != nil {
			return err
		}
	}
	return nil
}
