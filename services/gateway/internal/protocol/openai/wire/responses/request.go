package responses

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

// Request is what an input asks of the core.
type Request struct {
	AgentID      string
	Request      event.AgentRequest     // with messages only if a thread continues
	Conversation []event.HistoryMessage // nil = a thread continues
	Previous     string                 // the request whose thread continues; "" = Request.ThreadID, or a new thread
	System       string
	Metadata     json.RawMessage
}

// Request converts the input of a response that is created at a time.
//
// The input is a whole conversation, and begins a thread with it, unless it names one: by the previous response, by the
// conversation, by a reference to an item, or by the results of calls that end it. Then only what follows the last item of the
// assistant is new.
func (in Input) Request(at time.Time) (Request, error) {
	agentID, model := wire.Model(in.Model)
	r := Request{AgentID: agentID, System: in.Instructions}
	switch {
	case in.Previous != nil:
		r.Previous = RequestID(*in.Previous)
	case in.Conversation != nil:
		r.Request.ThreadID = string(*in.Conversation)
	}
	r.Request.Context = event.Context{Model: model, Extra: wire.Context(in.Metadata, in.User)}
	var err error
	if r.Request.Tools, err = in.tools(); err != nil {
		return r, err
	}
	if r.Request.Options, err = in.options(); err != nil {
		return r, err
	}
	tail, err := in.Input.tail(&r)
	if err != nil {
		return r, err
	}
	if tail, err = in.Input.answers(tail, &r); err != nil {
		return r, err
	}
	if r.Previous != "" || r.Request.ThreadID != "" {
		err = in.Input.added(tail, &r)
	} else {
		r.Conversation, err = in.Input.conversation()
	}
	note := about{Background: in.Background, Previous: r.Previous, Conversation: in.Conversation != nil, Metadata: in.Metadata}
	if !at.IsZero() {
		note.Created = at.Unix()
	}
	r.Metadata = wire.Encode(metadata{note})
	return r, err
}

// place returns the place of an item in the body, for errors.
func place(i int) string { return "input[" + strconv.Itoa(i) + "]" }

// tail returns the index of the first item after the last one of the assistant. A reference to an item names the response, or the
// thread, that continues, if nothing else does.
func (items Items) tail(r *Request) (int, error) {
	tail, named := 0, r.Previous != "" || r.Request.ThreadID != ""
	for i, item := range items {
		switch item.Type {
		case "", typeMessage:
			if item.Role != event.RoleAssistant {
				continue
			}
		case typeReference:
			requestID, threadID := origin(item.ID)
			if requestID == "" && threadID == "" {
				return 0, wire.Invalid("%s.id %.80q is not the id of an item of this server; send the item", place(i), item.ID)
			}
			if !named {
				r.Previous, r.Request.ThreadID = requestID, threadID
			}
		case typeReasoning, typeFunctionCall, typeMCPCall, typeMCPTools, typeApprovalRequest:
		case typeFunctionOutput, typeApprovalResponse:
			continue
		default:
			return 0, wire.Invalid("%s.type is %.40q, which this server does not support", place(i), item.Type)
		}
		tail = i + 1
	}
	return tail, nil
}

// origin returns the request of an item of this server, or the thread of one whose id is that of an action.
func origin(itemID string) (requestID, threadID string) {
	if call, ours := wire.ParseCallID(itemID); ours && call.Valid() {
		return "", call.ThreadID
	}
	return RequestOfItem(itemID), ""
}

// answers adds the results of calls of this server from an index on, which name the thread of the calls. It returns the index of the
// first new message: some clients leave out the call, and then the messages before its result are older than the call.
func (items Items) answers(from int, r *Request) (tail int, err error) {
	tail = from
	for i := from; i < len(items); i++ {
		item, where := items[i], place(i)
		var callID string
		switch item.Type {
		case typeFunctionOutput:
			callID, where = item.CallID, where+".call_id"
		case typeApprovalResponse:
			callID, where = item.RequestID, where+".approval_request_id"
		default:
			continue
		}
		call, ours := wire.ParseCallID(callID)
		if !ours && item.Type == typeFunctionOutput {
			continue // of a conversation with another server
		}
		if !ours || !call.Valid() {
			return tail, wire.Invalid("%s %.80q is not the id of a call of this server", where, callID)
		}
		if r.Request.ThreadID == "" {
			r.Request.ThreadID = call.ThreadID
			if r.Previous == "" && !items[:from].has(callID) {
				tail = i
			}
		}
		if r.Request.ThreadID != call.ThreadID {
			return tail, wire.Invalid("%s is of a call of another thread; answer the calls of each thread in a request of its own", where)
		}
		result, err := item.answer(place(i), call)
		if err != nil {
			return tail, err
		}
		r.Request.Context.ActionResults = append(r.Request.Context.ActionResults, result)
	}
	return tail, nil
}

// has reports whether the items have a call.
func (items Items) has(callID string) bool {
	return slices.ContainsFunc(items, func(one InputItem) bool { return one.CallID == callID || one.ID == callID })
}

// answer returns the result of a call.
func (item InputItem) answer(where string, call wire.CallID) (event.ActionResult, error) {
	if item.Type == typeApprovalResponse {
		result := event.ActionResult{ActionID: call.ActionID, Status: event.ActionSuccess}
		if item.Approve == nil || call.Kind != event.ContinueApproval {
			return result, wire.Invalid("%s must have approve, true or false, and the id of an approval request", where)
		}
		if !*item.Approve {
			result.Status, result.Error = event.ActionDenied, item.Reason
		}
		return result, nil
	}
	content, err := wire.Content(where+".output", item.Output)
	if err != nil {
		return event.ActionResult{}, err
	}
	return call.Result(where+".output", content.Text())
}

// added adds what the client has added to a thread: the messages from an index on, and all instructions.
func (items Items) added(from int, r *Request) error {
	r.Request.Messages = []event.InputMessage{}
	for i, item := range items {
		if item.Type != "" && item.Type != typeMessage || item.Role == event.RoleAssistant {
			continue
		}
		content, err := item.content(place(i))
		switch {
		case err != nil:
			return err
		case item.Role == event.RoleSystem || item.Role == event.RoleDeveloper:
			r.System = strings.TrimPrefix(r.System+"\n\n"+content.Text(), "\n\n")
		case i >= from:
			r.Request.Messages = append(r.Request.Messages, event.InputMessage{Role: item.Role, Content: content})
		}
	}
	if len(r.Request.Messages) == 0 && len(r.Request.Context.ActionResults) == 0 {
		return wire.Invalid("input brings nothing new: add a message of the user after the last item of the assistant")
	}
	return nil
}

// content returns the content of a message, which only the assistant may leave empty.
func (item InputItem) content(where string) (event.InputContent, error) {
	switch item.Role {
	case event.RoleUser, event.RoleSystem, event.RoleDeveloper:
	case event.RoleAssistant:
		return wire.Content(where+".content", item.Content)
	default:
		return nil, wire.Invalid("%s.role is %.40q; use \"user\", \"assistant\", \"system\" or \"developer\"", where, item.Role)
	}
	content, err := wire.Content(where+".content", item.Content)
	if err != nil {
		return nil, err
	}
	if len(content) == 0 {
		return nil, wire.Invalid("%s.content is missing or empty", where)
	}
	return codec.CheckContent(where+".content", content)
}

// conversation returns the messages. Reasoning is left out: only the model that wrote it can read it. So are approvals and answers
// to questions: no model has called these functions.
func (items Items) conversation() ([]event.HistoryMessage, error) {
	all := make([]event.HistoryMessage, 0, len(items))
	for i, item := range items {
		var err error
		switch item.Type {
		case "", typeMessage:
			one := event.HistoryMessage{Role: item.Role}
			if one.Content, err = item.content(place(i)); err == nil {
				all = append(all, one)
			}
		case typeFunctionCall:
			if callID, kept := wire.HistoryID(item.CallID); kept {
				all = addCall(all, event.HistoryCall{ID: callID, Name: item.Name, Args: item.arguments()})
			}
		case typeFunctionOutput:
			if callID, kept := wire.HistoryID(item.CallID); kept {
				one := event.HistoryMessage{Role: event.RoleTool, ToolCallID: callID}
				if one.Content, err = wire.Content(place(i)+".output", item.Output); err == nil {
					all = append(all, one)
				}
			}
		case typeMCPCall:
			if item.Status != statusIncomplete {
				all = append(addCall(all, event.HistoryCall{ID: item.ID, Name: item.Name, Args: item.arguments()}), item.result())
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if last := len(all) - 1; last < 0 || all[last].Role == event.RoleAssistant {
		return nil, wire.Invalid("input ends with an item of the assistant; add a message of the user, or the result of the last call")
	}
	return all, nil
}

// addCall adds a call to the last message, if the assistant has written it, or else as a message.
func addCall(all []event.HistoryMessage, call event.HistoryCall) []event.HistoryMessage {
	if last := len(all) - 1; last >= 0 && all[last].Role == event.RoleAssistant {
		all[last].ToolCalls = append(all[last].ToolCalls, call)
		return all
	}
	return append(all, event.HistoryMessage{Role: event.RoleAssistant, ToolCalls: []event.HistoryCall{call}})
}

func (item InputItem) arguments() json.RawMessage {
	var text string
	if jsonv2.Unmarshal(item.Arguments, &text) != nil {
		return nil
	}
	return wire.Arguments(text)
}

// result returns the result of a call that the agent has run.
func (item InputItem) result() event.HistoryMessage {
	one := event.HistoryMessage{Role: event.RoleTool, ToolCallID: item.ID}
	var text string
	if jsonv2.Unmarshal(item.Output, &text) != nil {
		text, one.Status = string(item.Error), event.ToolFailed
	}
	if text != "" {
		one.Content = event.InputContent{{Type: event.ContentText, Text: text}}
	}
	return one
}
