package tarko

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
)

// history adds the conversation that a thread begins with, if a client has imported one. Its messages have no runs.
func (p *Projector) history(b event.Input) {
	names := map[string]string{} // of the tools, by call
	for _, m := range b.History {
		content := contentOf(m.Content, b.ThreadID)
		switch m.Role {
		case event.RoleUser:
			p.add(UserMessage{Content: content})
		case event.RoleAssistant:
			p.importedMessage(m, content, names)
		case event.RoleTool:
			text, media := splitContent(content)
			result := ToolResult{ToolCallID: m.ToolCallID, Name: names[m.ToolCallID]}
			result.Content, result.ProcessedContent = resultContent(text, media)
			if m.Status != "" && m.Status != event.ToolSuccess {
				result.Error, result.Extra = string(m.Status), &ToolExtra{Status: string(m.Status)}
			}
			p.add(result)
		}
	}
}

// importedMessage adds a message of the assistant, and its calls. It has no messageId, since it has no increments.
func (p *Projector) importedMessage(m event.HistoryMessage, content Content, names map[string]string) {
	text, _ := splitContent(content)
	said := AssistantMessage{Content: text, RawContent: text, FinishReason: string(event.FinishStop)}
	for _, c := range m.ToolCalls {
		names[c.ID] = c.Name
		said.FinishReason = string(event.FinishToolCalls)
		said.ToolCalls = append(said.ToolCalls, MessageToolCall{
			ID: c.ID, Type: "function", Function: FunctionText{Name: c.Name, Arguments: string(argumentsOf(c))},
		})
	}
	p.add(said)
	for _, c := range m.ToolCalls {
		p.add(ToolCall{
			ToolCallID: c.ID, Name: c.Name, Arguments: argumentsOf(c), StartTime: p.event.Time.UnixMilli(), Tool: p.run.toolInfo(c.Name),
		})
	}
}

func argumentsOf(c event.HistoryCall) json.RawMessage {
	if len(c.Args) == 0 {
		return json.RawMessage("{}")
	}
	return c.Args
}

// splitContent returns the texts of a content, joined, and its other parts.
func splitContent(content Content) (text string, rest Content) {
	for _, part := range content {
		if part.Type == PartText {
			text += part.Text
			continue
		}
		rest = append(rest, part)
	}
	return text, rest
}
