package langgraph

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// interrupt is what a graph needs from the user.
type interrupt struct {
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value"`
}

// The forms of the answer to an interrupt.
const (
	formReview = "review" // {"decisions":[{"type":"approve"}]}, of LangChain's middleware
	formInbox  = "inbox"  // [{"type":"accept"}], of the agent inbox
)

// review is the value of an interrupt that asks whether tools may run.
type review struct {
	Actions      []action `json:"action_requests"`
	ActionsCamel []action `json:"actionRequests"` // of JavaScript
}

type action struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// inboxItem is the value, or an entry of the value, of an interrupt of the agent inbox.
type inboxItem struct {
	Request struct {
		Action string          `json:"action"`
		Args   json.RawMessage `json:"args"`
	} `json:"action_request"`
	Description string `json:"description"`
}

func (r *reader) interrupted(value json.RawMessage) {
	var list []interrupt
	if jsonv2.Unmarshal(value, &list) == nil {
		r.addInterrupts(list)
	}
}

// maxInterrupts limits the interrupts of a run.
const maxInterrupts = 100

func (r *reader) addInterrupts(list []interrupt) {
	for _, i := range list {
		if !slices.ContainsFunc(r.interrupts, func(o interrupt) bool { return o.ID == i.ID }) && len(r.interrupts) < maxInterrupts {
			r.interrupts = append(r.interrupts, i)
		}
	}
}

// finish ends the turn with the run.
func (r *reader) finish() error {
	if err := r.endText(); err != nil {
		return err
	}
	for _, i := range r.interrupts {
		if err := r.ask(i); err != nil {
			return err
		}
	}
	for _, c := range r.order {
		end := r.start // the log shows the outcome as unknown
		if len(r.interrupts) > 0 {
			end = r.suspend // the run that continues has the result
		}
		if err := end(c); err != nil {
			return err
		}
	}
	r.outcome.Finish = cmp.Or(r.outcome.Finish, event.FinishStop)
	if r.asked > 0 {
		r.outcome.Finish = event.FinishToolCalls
	}
	return nil
}

// ask begins the calls for an interrupt: approvals of the tools that it names, or a question.
func (r *reader) ask(i interrupt) error {
	actions, form := i.actions()
	for index, a := range actions {
		if a.Name == "" {
			return r.agent.Broke("interrupt %q asks for an approval of a tool without a name", i.ID)
		}
		n := note{Interrupt: i.ID, Form: form, Index: index, Of: len(actions)}
		args := string(object(a.Args))
		if c := r.waiting(a); c != nil {
			n.ID = c.id
			if err := r.suspend(c); err != nil {
				return err
			}
		}
		if err := r.call(a.Name, backend.GateAgentApproval, args, n); err != nil {
			return err
		}
	}
	if len(actions) > 0 {
		return nil
	}
	args, err := jsonv2.Marshal(map[string]string{"question": i.question()})
	if err != nil {
		return err
	}
	return r.call("ask_user", backend.GateInput, string(args), note{Interrupt: i.ID})
}

// actions returns the tools that an interrupt wants reviewed, and the form of its answer.
func (i interrupt) actions() ([]action, string) {
	var v review
	if jsonv2.Unmarshal(i.Value, &v) == nil && len(v.Actions)+len(v.ActionsCamel) > 0 {
		return append(v.Actions, v.ActionsCamel...), formReview
	}
	var items []inboxItem
	if jsonv2.Unmarshal(i.Value, &items) != nil {
		items = make([]inboxItem, 1)
		if jsonv2.Unmarshal(i.Value, &items[0]) != nil {
			return nil, ""
		}
	}
	var actions []action
	for _, item := range items {
		if item.Request.Action == "" {
			return nil, ""
		}
		actions = append(actions, action{item.Request.Action, item.Request.Args})
	}
	return actions, formInbox
}

// question is the text that an interrupt shows to the user.
func (i interrupt) question() string {
	var text string
	if jsonv2.Unmarshal(i.Value, &text) == nil && text != "" {
		return text
	}
	var object map[string]any
	if jsonv2.Unmarshal(i.Value, &object) == nil {
		for _, name := range []string{"question", "message", "prompt", "query"} {
			if text, ok := object[name].(string); ok && text != "" {
				return text
			}
		}
	}
	if kind := jsontext.Value(i.Value).Kind(); kind == '{' || kind == '[' {
		return string(i.Value)
	}
	return "the agent needs an answer"
}

// waiting returns the call that an action is about.
func (r *reader) waiting(a action) *call {
	for _, c := range r.order {
		if !c.handled && c.name == a.Name && sameJSON(object(c.args), object(a.Args)) {
			return c
		}
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	x, y := jsontext.Value(a).Clone(), jsontext.Value(b).Clone()
	return x.Canonicalize() == nil && y.Canonicalize() == nil && string(x) == string(y)
}

// suspend ends a call that needs the user. It may have been reported as running.
func (r *reader) suspend(c *call) error {
	running := c.running && !c.handled
	c.handled = true
	if !running {
		return nil
	}
	return r.emit(backend.ToolEnded{ID: c.id, Status: event.ToolDenied, Content: "it waits for the user"})
}

// call emits a whole call whose result the next turn has.
func (r *reader) call(name string, gate backend.Gate, args string, n note) error {
	i := r.asked
	r.asked++
	for _, c := range []backend.Chunk{
		backend.CallStart{Index: i, Name: name, Gate: gate}, backend.CallSignature{Index: i, Signature: n.String()},
		backend.CallDelta{Index: i, Args: args},
	} {
		if err := r.emit(c); err != nil {
			return err
		}
	}
	return nil
}

// given is the answer to one call of an interrupt.
type given struct {
	note   note
	result backend.Result
}

// resume returns the answers to the interrupts of the last run; nil without any, or if the user has sent a new message since.
// The answer to a single interrupt is its value; those to several are an object by id.
func resume(messages []backend.Message) (json.RawMessage, error) {
	calls, answers, ids := map[string]note{}, map[string][]given{}, []string(nil)
	for _, m := range messages {
		if m.Role != backend.Tool {
			clear(answers)
			ids = nil
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Call:
				calls[p.ID] = read(p.Signature)
			case backend.Result:
				n := calls[p.ID]
				if n.Interrupt == "" {
					continue
				}
				if answers[n.Interrupt] == nil {
					ids = append(ids, n.Interrupt)
				}
				answers[n.Interrupt] = append(answers[n.Interrupt], given{n, p})
			}
		}
	}
	values := map[string]any{}
	for _, id := range ids {
		values[id] = valueOf(answers[id])
	}
	switch len(ids) {
	case 0:
		return nil, nil
	case 1:
		return jsonv2.Marshal(values[ids[0]], jsonv2.Deterministic(true))
	default:
		return jsonv2.Marshal(values, jsonv2.Deterministic(true))
	}
}

// decision is the answer of the user about a tool.
type decision struct {
	Type    string `json:"type"`
	Message string `json:"message,omitempty"`
	Args    any    `json:"args,omitzero"` // of the inbox: the message, or null
}

// valueOf returns the value with which an interrupt is resumed.
func valueOf(all []given) any {
	form := all[0].note.Form
	if form == "" {
		content := all[0].result.Content
		if v := jsontext.Value(content); v.IsValid() && v.Kind() == '{' {
			return json.RawMessage(content)
		}
		return content
	}
	decisions := make([]decision, max(all[0].note.Of, 1))
	for i := range decisions {
		decisions[i] = denied(form, "")
	}
	for _, one := range all {
		if one.note.Index >= len(decisions) || one.note.Index < 0 {
			continue
		}
		switch {
		case one.result.Status != event.ToolSuccess:
			decisions[one.note.Index] = denied(form, one.result.Content)
		case form == formInbox:
			decisions[one.note.Index] = decision{Type: "accept"}
		default:
			decisions[one.note.Index] = decision{Type: "approve"}
		}
	}
	if form == formInbox {
		return decisions
	}
	return map[string]any{"decisions": decisions}
}

func denied(form, reason string) decision {
	reason = strings.TrimSpace(cmp.Or(reason, "the user denied this call"))
	if form == formInbox {
		return decision{Type: "response", Args: reason}
	}
	return decision{Type: "reject", Message: reason}
}
