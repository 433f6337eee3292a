package wire

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
)

// Part is a text or a file, as the client shows it.
type Part struct {
	Type      string `json:"type"` // text, file
	Text      string `json:"text,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Filename  string `json:"filename,omitempty"`
	URL       string `json:"url,omitempty"`
}

// The types of parts that messages of the user have.
const (
	partText = "text"
	partFile = "file"
)

// partOf returns a part of a message of a thread. An object is named by its path on the gateway.
func partOf(p event.InputPart, threadID string) Part {
	if p.Type == event.ContentText {
		return Part{Type: partText, Text: p.Text}
	}
	part := Part{Type: partFile, MediaType: p.MediaType, Filename: p.Name, URL: p.URL}
	switch {
	case part.MediaType != "":
	case p.Type == media.Image:
		part.MediaType = "image"
	default:
		part.MediaType = media.Binary
	}
	switch {
	case p.Ref != nil:
		part.URL = objectURL(threadID, p.Ref)
	case len(p.Data) > 0:
		part.URL = "data:" + part.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
	}
	return part
}

// objectURL returns the path of an object on the gateway.
func objectURL(threadID string, ref *event.ObjectRef) string {
	return "/v1/threads/" + threadID + "/objects/" + ref.Object
}

// input returns the texts and files of a message, without its other parts.
func (m Message) input(where string) (event.InputContent, error) {
	var content event.InputContent
	for i, p := range m.Parts {
		switch p.Type {
		case partText:
			content = append(content, event.InputPart{Type: event.ContentText, Text: p.Text})
		case partFile:
			if p.URL == "" {
				return nil, invalid("%s.parts[%d].url is missing; send a data URL, or one that the agent can read", where, i)
			}
			content = append(content, p.file())
		}
	}
	return content, nil
}

// file returns a file. Clients may send a media type without a subtype; the content decides then.
func (p InPart) file() event.InputPart {
	one := event.InputPart{Type: media.File, URL: p.URL, Name: p.Filename}
	kind, subtype, _ := strings.Cut(p.MediaType, "/")
	if kind == "image" {
		one.Type = media.Image
	}
	if subtype != "" && subtype != "*" {
		one.MediaType = p.MediaType
	}
	return one
}

// history returns the messages that agents read: each step of an assistant message is one, with the results of its calls.
func (m Message) history(i int) ([]event.HistoryMessage, error) {
	where := "messages[" + strconv.Itoa(i) + "]"
	if m.Role != event.RoleAssistant {
		content, err := m.input(where)
		return []event.HistoryMessage{{ID: m.ID, Role: m.Role, Content: content}}, err
	}
	var all, results []event.HistoryMessage
	step := event.HistoryMessage{Role: m.Role}
	end := func() {
		if len(step.Content) > 0 || len(step.ToolCalls) > 0 {
			all = append(append(all, step), results...)
		}
		step, results = event.HistoryMessage{Role: m.Role}, nil
	}
	for _, p := range m.Parts {
		tool, isCall := p.tool()
		switch {
		case p.Type == "step-start":
			end()
		case p.Type == partText && p.Text != "":
			step.Content = append(step.Content, event.InputPart{Type: event.ContentText, Text: p.Text})
		case isCall && p.State != stateStreaming:
			step.ToolCalls = append(step.ToolCalls, event.HistoryCall{ID: p.ToolCallID, Name: tool, Args: object(p.Input)})
			if r, ok := p.result(); ok {
				results = append(results, r)
			}
		}
	}
	end()
	if len(all) > 0 {
		all[0].ID = m.ID
	}
	return all, nil
}

// tool returns the tool of a call; false for a part that is not a call.
func (p InPart) tool() (name string, ok bool) {
	if p.Type == "dynamic-tool" {
		return p.ToolName, true
	}
	return strings.CutPrefix(p.Type, "tool-")
}

// result returns the result of a call; false if it has none.
func (p InPart) result() (event.HistoryMessage, bool) {
	r := event.HistoryMessage{Role: event.RoleTool, ToolCallID: p.ToolCallID}
	var text string
	switch p.State {
	case stateOutput:
		if p.Preliminary {
			return r, false
		}
		text = textOf(p.Output)
	case stateError:
		r.Status, text = event.ToolFailed, p.ErrorText
	case stateDenied:
		r.Status, text = event.ToolDenied, p.Approval.Reason
	default:
		return r, false
	}
	r.Content = event.InputContent{{Type: event.ContentText, Text: text}}
	return r, true
}

// textOf returns a string as it is, and any other JSON as JSON.
func textOf(value json.RawMessage) string {
	var text string
	if unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// object returns the arguments of a call; nil = none, or a value that is not an object, such as that of a call that was cut.
func object(value json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if unmarshal(value, &members) != nil || len(members) == 0 {
		return nil
	}
	return value
}
