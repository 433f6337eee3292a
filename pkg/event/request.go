package event

import (
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AgentRequest is the body of POST /v1/agents/{agentName}/stream (agent event protocol, Request Schema). Only Messages
// is required; it may be empty if the context has action results.
type AgentRequest struct {
	Messages []InputMessage `json:"messages"`
	ThreadID string         `json:"threadId,omitempty"`
	Context  Context        `json:"context,omitzero"`
	Tools    []RequestTool  `json:"tools,omitzero"` // that the client runs; nil = not declared, which differs from an empty list
	Options  RequestOptions `json:"options,omitzero"`
}

// Context is the part of a request other than its messages. Unknown members are passed to the agent.
type Context struct {
	ActionResults []ActionResult `json:"actionResults,omitempty"`
	Model         string         `json:"model,omitempty"` // asks for another model than the agent's own
	Extra         Members        `json:",embed"`
}

// IsZero makes an empty context absent from the JSON.
func (c Context) IsZero() bool {
	return len(c.ActionResults) == 0 && c.Model == "" && c.Extra.IsEmpty()
}

// The roles of messages. In an [InputMessage] only RoleUser is allowed.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"      // the result of a tool call
	RoleSystem    = "system"    // instructions
	RoleDeveloper = "developer" // as RoleSystem
)

// InputMessage is what a user says.
type InputMessage struct {
	ID      string       `json:"id,omitempty"` // the client's own; the log keeps it
	Role    string       `json:"role"`
	Content InputContent `json:"content"`
}

// InputContent is a message's parts. In JSON it is a string, or an array of parts.
type InputContent []InputPart

// InputPart is a piece of a message, or of what a tool gave: text, or an image or file by URL, inline data or reference.
type InputPart struct {
	Type      string     `json:"type"` // text, image, file
	Text      string     `json:"text,omitempty"`
	URL       string     `json:"url,omitempty"`
	Data      []byte     `json:"data,omitempty"` // base64 in JSON
	MediaType string     `json:"mediaType,omitempty"`
	Name      string     `json:"name,omitempty"`
	Ref       *ObjectRef `json:"ref,omitempty"` // instead of data, when it is large
	Extra     Members    `json:",embed"`
}

// isPlainText reports whether p is a text and nothing else.
func (p InputPart) isPlainText() bool {
	return p.Type == ContentText && p.URL == "" && len(p.Data) == 0 && p.MediaType == "" && p.Name == "" && p.Ref == nil &&
		p.Extra.IsEmpty()
}

// UserText is a message of one text.
func UserText(text string) InputMessage {
	return InputMessage{Role: RoleUser, Content: InputContent{{Type: ContentText, Text: text}}}
}

// Text joins the text parts, one to a line.
func (c InputContent) Text() string {
	var text string
	for _, p := range c {
		if p.Type != ContentText {
			continue
		}
		if text != "" {
			text += "\n"
		}
		text += p.Text
	}
	return text
}

// MarshalJSON writes a single text as a string, and anything else as an array of parts.
func (c InputContent) MarshalJSON() ([]byte, error) {
	if len(c) == 1 && c[0].isPlainText() {
		return jsonv2.Marshal(c[0].Text)
	}
	return jsonv2.Marshal([]InputPart(c))
}

// UnmarshalJSON reads a string or an array of parts.
func (c *InputContent) UnmarshalJSON(value []byte) error {
	switch jsontext.Value(value).Kind() {
	case jsontext.KindString:
		var text string
		if err := jsonv2.Unmarshal(value, &text); err != nil {
			return err
		}
		*c = InputContent{{Type: ContentText, Text: text}}
		return nil
	case jsontext.KindBeginArray:
		return jsonv2.Unmarshal(value, (*[]InputPart)(c))
	default:
		return fmt.Errorf("content must be a string or an array of parts such as {\"type\":\"text\",\"text\":\"hi\"}")
	}
}

// ActionStatus is what a client decided about an action.
type ActionStatus string

// The decisions.
const (
	ActionSuccess ActionStatus = "success" // done, allowed, answered
	ActionError   ActionStatus = "error"   // it was tried and went wrong
	ActionDenied  ActionStatus = "denied"
)

// ActionResult answers a [Continuation].
type ActionResult struct {
	ActionID string          `json:"actionId"`
	Status   ActionStatus    `json:"status"`
	Result   json.RawMessage `json:"result,omitzero"` // any JSON: a tool's result, the answer to a question
	Error    string          `json:"error,omitempty"`
}
