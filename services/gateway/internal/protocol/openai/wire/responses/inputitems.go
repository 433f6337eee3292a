package responses

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

// InputItems returns what a request has brought, the oldest item first: the conversation before it, the results of actions, and the
// new messages.
func InputItems(requestID string, in event.Input) []Item {
	items := make([]Item, 0, len(in.History)+len(in.ActionResults)+len(in.Messages))
	for _, m := range in.History {
		items = append(items, historyItems(m, in.ThreadID)...)
	}
	for _, a := range in.ActionResults {
		items = append(items, actionItem(a, in.ThreadID))
	}
	for _, m := range in.Messages {
		items = append(items, messageItem(m.Role, m.Content, in.ThreadID))
	}
	for i := range items {
		items[i].ID = "in_" + requestID + "_" + strconv.Itoa(i)
	}
	return items
}

func messageItem(role string, content event.InputContent, threadID string) Item {
	item := Item{Type: typeMessage, Status: statusCompleted, Role: role, Content: []Part{}}
	for _, p := range content {
		item.Content = append(item.Content, inputPart(role, p, threadID))
	}
	return item
}

// historyItems returns the items of a message of an imported conversation.
func historyItems(m event.HistoryMessage, threadID string) []Item {
	if m.Role == event.RoleTool {
		output := m.Content.Text()
		return []Item{{Type: typeFunctionOutput, Status: statusCompleted, CallID: m.ToolCallID, Output: &output}}
	}
	var items []Item
	if len(m.Content) > 0 {
		items = append(items, messageItem(m.Role, m.Content, threadID))
	}
	for _, c := range m.ToolCalls {
		arguments := argumentsText(c.Args)
		items = append(items, Item{Type: typeFunctionCall, Status: statusCompleted, CallID: c.ID, Name: c.Name, Arguments: &arguments})
	}
	return items
}

// actionItem returns the result of an action. The input does not name the kind of the action: one without a result is an approval.
func actionItem(a event.ActionResult, threadID string) Item {
	if len(a.Result) == 0 && a.Status != event.ActionError {
		approve := a.Status == event.ActionSuccess
		callID := wire.CallID{Kind: event.ContinueApproval, ActionID: a.ActionID, ThreadID: threadID}
		return Item{Type: typeApprovalResponse, RequestID: callID.String(), Approve: &approve, Reason: a.Error}
	}
	output := a.Error
	if len(a.Result) > 0 {
		output = resultText(a.Result)
	}
	callID := wire.CallID{Kind: event.ContinueTool, ActionID: a.ActionID, ThreadID: threadID}
	return Item{Type: typeFunctionOutput, Status: statusCompleted, CallID: callID.String(), Output: &output}
}

// resultText returns a result as text: a string as it is, any other JSON as JSON.
func resultText(result json.RawMessage) string {
	var text string
	if jsonv2.Unmarshal(result, &text) == nil {
		return text
	}
	return string(result)
}

// inputPart returns a part of a message. An object is named by its path on the gateway.
func inputPart(role string, p event.InputPart, threadID string) Part {
	address := p.URL
	switch {
	case p.Ref != nil:
		address = "/v1/threads/" + threadID + "/objects/" + p.Ref.Object
	case len(p.Data) > 0:
		address = "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
	}
	switch {
	case p.Type == event.ContentText && role == event.RoleAssistant:
		return outputText(p.Text)
	case p.Type == event.ContentText:
		return Part{Type: "input_text", Text: &p.Text}
	case p.Type == media.Image:
		return Part{Type: "input_image", Detail: "auto", ImageURL: address}
	case len(p.Data) > 0:
		return Part{Type: "input_file", FileData: address, Filename: p.Name}
	default:
		return Part{Type: "input_file", FileURL: address, Filename: p.Name}
	}
}
