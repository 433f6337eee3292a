package transcript

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
)

// importHistory adds messages of a conversation that the client has kept. They belong to no request.
func (s *State) importHistory(messages []event.HistoryMessage) {
	for _, m := range messages {
		switch m.Role {
		case event.RoleUser:
			s.entries = append(s.entries, entry{user: userParts(m.Content)})
		case event.RoleAssistant:
			if blocks := importedBlocks(m); len(blocks) > 0 {
				s.entries = append(s.entries, entry{blocks: blocks})
			}
		case event.RoleTool:
			s.importResult(m)
		}
	}
}

// importedBlocks returns the blocks of an assistant message: its text and its calls.
func importedBlocks(m event.HistoryMessage) []Block {
	var blocks []Block
	if text := m.Content.Text(); text != "" {
		blocks = append(blocks, Block{Kind: event.NameText, Text: text})
	}
	for _, c := range m.ToolCalls {
		args := c.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		blocks = append(blocks, Block{Kind: event.NameToolCall, CallID: importedID(c.ID), Tool: importedName(c.Name), Args: args})
	}
	return blocks
}

func (s *State) importResult(m event.HistoryMessage) {
	if s.outputs == nil {
		s.outputs = make(map[string]event.ToolOutput)
	}
	callID := importedID(m.ToolCallID)
	s.outputs[callID] = event.ToolOutput{
		ToolCallID: callID, Status: cmp.Or(m.Status, event.ToolSuccess), Content: m.Content.Text(),
		Media: slices.DeleteFunc(slices.Clone(m.Content), func(p event.InputPart) bool { return p.Type == event.ContentText }),
	}
}

// importedName is the name of a tool as providers accept it: a client may have used other characters.
func importedName(name string) string {
	if id.Valid(name) {
		return name
	}
	name = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && id.Valid(string(r)) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), id.MaxLength)]
}

// importedID is the id of a call, which a client may have given another form than ids have here.
func importedID(callID string) string {
	if id.Valid(callID) {
		return callID
	}
	return id.Derive(id.Call, "history", callID)
}
