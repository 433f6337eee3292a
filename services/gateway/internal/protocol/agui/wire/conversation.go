package wire

import (
	"cmp"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// conversation is the messages that a client has after the events that it applied. It follows the rules of the published
// client, so that a snapshot does not change what a client has that received all events.
type conversation struct {
	messages []Message
}

func newConversation(messages []Message) *conversation {
	return &conversation{messages: slices.Concat([]Message{}, messages)}
}

// apply applies an event.
func (c *conversation) apply(e Event) {
	switch e.Type {
	case oldMessage:
		c.put(e.Messages[0])
	case userMessage:
		c.put(Message{ID: e.MessageID, Role: roleUser, Content: e.Content})
	case TextStart:
		c.begin(Message{ID: e.MessageID, Role: e.Role, SubagentRunID: e.SubagentRunID, Metadata: e.Metadata})
	case ReasoningMessageStart:
		c.begin(Message{ID: e.MessageID, Role: roleReasoning, SubagentRunID: e.SubagentRunID})
	case TextContent, ReasoningMessageContent:
		c.extend(e.MessageID, e.Delta)
	case ReasoningEncryptedValue:
		if m := c.find(e.EntityID); m != nil {
			m.EncryptedValue = e.EncryptedValue
		}
	case ToolCallStart:
		c.put(Message{ID: e.ToolCallID, Role: roleAssistant, SubagentRunID: e.SubagentRunID, ToolCalls: []ToolCall{
			{ID: e.ToolCallID, Type: "function", Function: FunctionCall{Name: e.ToolCallName}},
		}})
	case ToolCallArgs:
		if m := c.find(e.ToolCallID); m != nil && len(m.ToolCalls) == 1 {
			m.ToolCalls[0].Function.Arguments += e.Delta
		}
	case ToolCallResult:
		c.answer(e)
	case ActivitySnapshot:
		c.put(Message{
			ID: e.MessageID, Role: roleActivity, SubagentRunID: e.SubagentRunID, ActivityType: e.ActivityType, Content: e.Content,
		})
	}
}

func (c *conversation) find(id string) *Message {
	for i := range slices.Backward(c.messages) {
		if c.messages[i].ID == id {
			return &c.messages[i]
		}
	}
	return nil
}

// put adds a message, or replaces the one with its id.
func (c *conversation) put(m Message) {
	if known := c.find(m.ID); known != nil {
		*known = m
		return
	}
	c.messages = append(c.messages, m)
}

// begin adds a message that grows, unless it exists.
func (c *conversation) begin(m Message) {
	if c.find(m.ID) == nil {
		m.Content = encode("")
		c.messages = append(c.messages, m)
	}
}

func (c *conversation) extend(id, delta string) {
	if m := c.find(id); m != nil {
		m.text = append(m.text, delta...)
		m.Content = nil
	}
}

// answer adds the result of a call after the call and the results that follow it.
func (c *conversation) answer(e Event) {
	m := Message{
		ID: e.MessageID, Role: roleTool, SubagentRunID: e.SubagentRunID, ToolCallID: e.ToolCallID, Content: e.Content, Metadata: e.Metadata,
	}
	at := slices.IndexFunc(c.messages, func(one Message) bool { return one.ID == e.ToolCallID })
	if at < 0 {
		c.messages = append(c.messages, m)
		return
	}
	at++
	for at < len(c.messages) && c.messages[at].Role == roleTool {
		at++
	}
	c.messages = slices.Insert(c.messages, at, m)
}

// snapshot returns the messages in the form that is sent.
func (c *conversation) snapshot() []Message {
	all := make([]Message, 0, len(c.messages))
	for _, m := range c.messages {
		if m.Content == nil && m.text != nil {
			m.Content = encode(string(m.text))
		}
		all = append(all, m)
	}
	return all
}

// oldMessageOf returns a message of the conversation with which a thread began.
func oldMessageOf(m event.HistoryMessage, id, threadID string) Message {
	one := Message{ID: cmp.Or(m.ID, id), Role: m.Role, ToolCallID: m.ToolCallID}
	if len(m.Content) > 0 || len(m.ToolCalls) == 0 {
		one.Content = contentOf(m.Content, threadID)
	}
	for _, c := range m.ToolCalls {
		one.ToolCalls = append(one.ToolCalls, ToolCall{
			ID: c.ID, Type: "function", Function: FunctionCall{Name: c.Name, Arguments: cmp.Or(string(c.Args), "{}")},
		})
	}
	return one
}
