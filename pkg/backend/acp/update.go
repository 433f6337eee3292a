package acp

import (
	"cmp"
	"encoding/json"
	"strings"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// toolCall is a call that the program has reported.
type toolCall struct {
	protocol.ToolCall
	started, ended bool
	waits          bool   // for the decision of the user; the call is made again in a later turn
	denied         bool   // by a rule, or by the user
	printed        string // the output that was emitted
}

// update emits what the program reports.
func (r *run) update(u protocol.Update) error {
	if r.replaying {
		return nil
	}
	switch u.SessionUpdate {
	case protocol.UpdateAgentMessage:
		return r.text(u, func(text string) backend.Chunk { return backend.TextDelta(text) })
	case protocol.UpdateAgentThought:
		return r.text(u, func(text string) backend.Chunk { return backend.ThinkingDelta(text) })
	case protocol.UpdateToolCall, protocol.UpdateToolProgress:
		return r.tool(u.ToolCall)
	case protocol.UpdatePlan:
		return r.plan(u.Entries)
	case protocol.UpdateUsage:
		return r.usage(u)
	case protocol.UpdateNotice:
		return r.say(backend.Warning(oneLine(u.Title + " " + u.Description)))
	default:
		return nil // an update of a later version, or one that has no meaning here
	}
}

// text emits a part of a message. Content other than text is named.
func (r *run) text(u protocol.Update, chunk func(string) backend.Chunk) error {
	c, err := protocol.Decode[protocol.Content](u.Content)
	if err != nil {
		return nil //nolint:nilerr // content of a later version is left out
	}
	text := describe(c)
	if text == "" {
		return nil
	}
	if err := r.progress(); err != nil {
		return err
	}
	return r.say(chunk(strings.ToValidUTF8(text, "\uFFFD")))
}

func describe(c protocol.Content) string {
	switch {
	case c.Type == protocol.ContentText:
		return c.Text
	case c.Type == protocol.ContentResource && c.Resource != nil && c.Resource.Text != "":
		return c.Resource.Text
	case c.Type == protocol.ContentLink:
		return "[" + c.Name + "](" + c.URI + ")"
	default:
		return "[" + c.Type + "]"
	}
}

// progress notes that the model works: after tools it has begun another turn.
func (r *run) progress() error {
	if !r.spoke {
		r.spoke = true
		if err := r.saveState(); err != nil {
			return err
		}
	}
	if !r.worked {
		return nil
	}
	r.worked = false
	return r.say(backend.Step{Model: r.turn.Model})
}

// tool merges an update into its call. A call starts when its arguments are known: when it runs, shows output, or ends.
func (r *run) tool(u protocol.ToolCall) error {
	if u.ToolCallID == "" {
		return nil
	}
	t := r.merge(u)
	if t.ended || t.waits {
		return nil
	}
	output := t.output()
	if t.Status != protocol.ToolPending && t.Status != "" || output != "" {
		if err := r.start(t); err != nil {
			return err
		}
	}
	if t.Status == protocol.ToolCompleted || t.Status == protocol.ToolFailed {
		return r.finishTool(t)
	}
	added, grew := strings.CutPrefix(output, t.printed)
	if !grew || added == "" {
		return nil // it was replaced: the end has the whole
	}
	t.printed = output
	return r.say(backend.ToolProgress{ID: t.ToolCallID, Delta: added})
}

func (r *run) merge(u protocol.ToolCall) *toolCall {
	t := r.tools[u.ToolCallID]
	if t == nil {
		t = &toolCall{ToolCall: protocol.ToolCall{ToolCallID: u.ToolCallID}}
		r.tools[u.ToolCallID] = t
		r.order = append(r.order, u.ToolCallID)
	}
	t.Title, t.Kind = cmp.Or(u.Title, t.Title), cmp.Or(u.Kind, t.Kind)
	t.Name, t.Status = cmp.Or(u.Name, t.Name), cmp.Or(u.Status, t.Status)
	for _, m := range []struct{ have, news *json.RawMessage }{
		{&t.RawInput, &u.RawInput}, {&t.RawOutput, &u.RawOutput}, {&t.Content, &u.Content},
	} {
		if len(*m.news) > 0 && string(*m.news) != "null" {
			*m.have = *m.news
		}
	}
	if len(u.Locations) > 0 {
		t.Locations = u.Locations
	}
	return t
}

func (r *run) start(t *toolCall) error {
	if t.started {
		return nil
	}
	t.started = true
	if err := r.progress(); err != nil {
		return err
	}
	return r.say(backend.ToolStarted{ID: t.ToolCallID, Name: t.name(), Args: t.args()})
}

// name is the name of the tool, or what the program says of the call.
func (t *toolCall) name() string {
	return strings.ToValidUTF8(cmp.Or(t.Name, t.Title, t.Kind, "tool"), "\uFFFD")
}

// args are the arguments of the call, or what else the program says of it.
func (t *toolCall) args() json.RawMessage {
	if jsontext.Value(t.RawInput).Kind() == '{' {
		return t.RawInput
	}
	shown := map[string]any{}
	if t.Title != "" {
		shown["title"] = t.Title
	}
	for _, l := range t.Locations {
		shown["path"] = l.Path
	}
	args, err := jsonv2.Marshal(shown, jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil
	}
	return args
}

// output is what the call shows, as text.
func (t *toolCall) output() string {
	parts, err := protocol.Decode[[]protocol.ToolContent](orEmpty(t.Content))
	if err != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		switch {
		case p.Content != nil:
			texts = append(texts, describe(*p.Content))
		case p.Type == "diff" && p.NewText != nil:
			texts = append(texts, p.Path+":\n"+*p.NewText)
		}
	}
	return strings.ToValidUTF8(strings.Join(texts, "\n"), "\uFFFD")
}

func orEmpty(list json.RawMessage) json.RawMessage {
	if len(list) == 0 {
		return json.RawMessage("[]")
	}
	return list
}

func (r *run) finishTool(t *toolCall) error {
	t.ended, r.worked = true, true
	ended := backend.ToolEnded{ID: t.ToolCallID, Content: cmp.Or(t.output(), string(t.RawOutput))}
	switch {
	case t.denied:
		ended.Status = event.ToolDenied
	case t.Status == protocol.ToolFailed:
		ended.Status = event.ToolFailed
	}
	return r.say(ended)
}

// finishTools ends the calls that the program has not ended, when the turn is over.
func (r *run) finishTools(reason protocol.StopReason) error {
	for _, id := range r.order {
		t := r.tools[id]
		if !t.started || t.ended {
			continue
		}
		t.ended = true
		ended := backend.ToolEnded{ID: id, Status: event.ToolUnknown, Content: "the agent has not said how the call ended"}
		switch {
		case t.waits:
			ended.Status, ended.Content = event.ToolDenied, "it waits for the approval of the user"
		case reason == protocol.StopCancelled:
			ended.Status, ended.Content = event.ToolAborted, "the turn was cancelled"
		}
		if err := r.say(ended); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) plan(entries []protocol.PlanEntry) error {
	plan := backend.Plan{}
	for _, e := range entries {
		plan.Steps = append(plan.Steps, event.PlanStep{Content: e.Content, Done: e.Status == protocol.ToolCompleted})
	}
	return r.say(plan)
}

// usage notes what the session has cost, and ends the turn at its limit.
func (r *run) usage(u protocol.Update) error {
	if u.Cost == nil || u.Cost.Currency != "USD" {
		return nil
	}
	r.cost = u.Cost.Amount
	if limit := r.turn.Limits.CostUSD; limit > 0 && r.cost-r.session.State.Used.CostUSD >= limit {
		return errBudget
	}
	return nil
}
