package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is what an input asks of the core.
type Request struct {
	Request      event.AgentRequest // without messages and results of actions
	Conversation []event.HistoryMessage
	System       string
	Metadata     json.RawMessage // see [metadata]
	Repeat       bool            // the last message of the user is to be answered again

	// Continued is the message of the assistant that the response continues; the zero value = the response is a new message.
	Continued Continued

	// Approvals are the decisions of the user that the client has not seen the effect of. Outputs are those of all calls that
	// the client has run; the actions of most of them were resolved by earlier requests. See [ActionOf].
	Approvals []event.ActionResult
	Outputs   []Output
}

// Output is the output of a call, as the result of an action.
type Output struct {
	CallID string
	Result event.ActionResult // without the id of the action
}

// ActionOf returns the ids that the action of a call can have: the part of a called agent's action has the id of the action.
func (o Output) ActionOf() [2]string { return [2]string{id.Derive(id.Action, o.CallID), o.CallID} }

// metadata is the metadata of a request.
type metadata struct {
	AISDK struct {
		MessageID string `json:"messageId"` // of the message that the request continues, as the client names it
	} `json:"aisdk"`
}

// MessageID returns the id of the message that a request continues, from the metadata of the request; "" = none.
func MessageID(text json.RawMessage) string {
	var m metadata
	if len(text) == 0 || unmarshal(text, &m) != nil {
		return ""
	}
	return m.AISDK.MessageID
}

// Decode implements codec.Codec. The messages are in [Input.Request] alone, since they are a whole conversation.
func (Codec) Decode(text []byte) (event.AgentRequest, error) {
	in, err := DecodeInput(text)
	if err != nil {
		return event.AgentRequest{}, err
	}
	r, err := in.Request()
	return r.Request, err
}

// Request converts the input.
func (in Input) Request() (Request, error) {
	r := Request{
		Request: event.AgentRequest{ThreadID: in.ID, Tools: in.tools()}, Conversation: []event.HistoryMessage{},
		System: in.System, Repeat: in.Trigger == triggerRegenerate,
	}
	r.Request.Context.Model = in.Model
	if rest := in.Rest; len(rest) > 0 && string(rest) != "{}" {
		r.Request.Context.Extra = event.NewMembers(encode(map[string]json.RawMessage{"body": json.RawMessage(rest)}))
	}
	for i, m := range in.Messages {
		messages, err := m.history(i)
		if err != nil {
			return r, err
		}
		r.Conversation = append(r.Conversation, messages...)
	}
	answered, continues := in.response()
	r.Approvals, r.Outputs = answered.answers()
	for _, a := range r.Approvals {
		if !id.Valid(a.ActionID) {
			return r, invalid("the approval %.80q in message %.80q is not one that this server asked for", a.ActionID, answered.ID)
		}
	}
	if continues {
		r.Continued = Continued{ID: answered.ID, Calls: answered.calls()}
		m := metadata{}
		m.AISDK.MessageID = answered.ID
		r.Metadata = encode(m)
	}
	return r, nil
}

// tools returns the client's tools. Without any, a request that answers actions keeps those of the request before it.
func (in Input) tools() []event.RequestTool {
	var all []event.RequestTool
	for _, name := range slices.Sorted(maps.Keys(in.Tools)) {
		t := in.Tools[name]
		one := event.RequestTool{Name: name, Description: t.Description}
		for _, schema := range []json.RawMessage{t.InputSchema, t.Parameters} {
			if kind := jsontext.Value(schema).Kind(); kind == jsontext.KindBeginObject {
				one.Schema = schema
			}
		}
		all = append(all, one)
	}
	return all
}

// response returns the message of the assistant whose actions the input answers, and whether the response continues it, by the
// rules of the published client: it continues the message that messageId names, or else the last one.
func (in Input) response() (m Message, continues bool) {
	last := len(in.Messages) - 1
	if in.Trigger == triggerRegenerate {
		return m, false
	}
	for _, one := range in.Messages {
		if in.MessageID != "" && one.ID == in.MessageID && one.Role == event.RoleAssistant {
			return one, true
		}
	}
	for i, one := range slices.Backward(in.Messages) {
		if one.Role == event.RoleAssistant {
			return one, i == last
		}
	}
	return m, false
}

// answers returns the decisions and the outputs in a message.
func (m Message) answers() (approvals []event.ActionResult, outputs []Output) {
	for _, p := range m.Parts {
		_, isCall := p.tool()
		switch {
		case !isCall:
		case p.State == stateResponded:
			a := event.ActionResult{ActionID: p.Approval.ID, Status: event.ActionSuccess}
			if !p.Approval.Approved {
				a.Status, a.Error = event.ActionDenied, p.Approval.Reason
			}
			approvals = append(approvals, a)
		case p.Server:
		case p.State == stateOutput && !p.Preliminary:
			given := p.Output
			if len(given) == 0 {
				given = json.RawMessage("null") // JSON has no member for the output "undefined"
			}
			outputs = append(outputs, Output{p.ToolCallID, event.ActionResult{Status: event.ActionSuccess, Result: given}})
		case p.State == stateError:
			outputs = append(outputs, Output{p.ToolCallID, event.ActionResult{Status: event.ActionError, Error: p.ErrorText}})
		}
	}
	return approvals, outputs
}

// calls returns the calls in a message.
func (m Message) calls() []KnownCall {
	var all []KnownCall
	for _, p := range m.Parts {
		if _, isCall := p.tool(); isCall {
			all = append(all, KnownCall{
				ID: p.ToolCallID, Dynamic: p.Type == "dynamic-tool", ApprovalID: p.Approval.ID,
				Answered: p.State == stateOutput && !p.Preliminary || p.State == stateError || p.State == stateDenied,
			})
		}
	}
	return all
}
