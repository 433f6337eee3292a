package a2a

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxPrompt limits the conversation that a new context gets as one text, in bytes.
const maxPrompt = 1 << 20

// compose returns the parameters of the message of a turn. The context remembers the messages that it received; a new one gets the
// conversation as one text, since the protocol has no other form for it.
func compose(turn backend.Turn, contextID string) (params, error) {
	m := &message{
		ID:        id.Derive("msg", turn.RequestID, strconv.Itoa(len(turn.Messages))), // the same in each attempt: an agent may recognise it
		ContextID: contextID, Role: "ROLE_USER",
	}
	with := params{Message: m}
	known := 0
	if contextID != "" {
		known = min(turn.Known, len(turn.Messages))
	}
	if asked, results := questions(turn.Messages); asked != "" {
		m.TaskID, m.Parts = asked, results
	} else {
		m.Parts = spoken(turn.Messages, known)
	}
	if turn.System != "" && contextID == "" {
		m.Parts = append([]part{{Text: &turn.System}}, m.Parts...)
	}
	if len(m.Parts) == 0 {
		empty := ""
		m.Parts = []part{{Text: &empty}}
	}
	if len(turn.Options) > 0 {
		var options struct {
			Context json.RawMessage `json:"context"`
		}
		if err := jsonv2.Unmarshal(turn.Options, &options); err != nil {
			return params{}, fmt.Errorf("options of the turn: %w", err)
		}
		if jsontext.Value(options.Context).Kind() == '{' {
			with.Metadata = options.Context
		}
	}
	return with, nil
}

// spoken returns what the agent has not received: the messages of the user, or the conversation if others have spoken.
func spoken(messages []backend.Message, known int) (parts []part) {
	if known == len(messages) { // the turn is sent again
		known = max(0, known-1)
	}
	fresh := messages[known:]
	talk := false
	for _, m := range fresh {
		talk = talk || m.Role != backend.User
	}
	if talk {
		text := prompt.Of(fresh, maxPrompt)
		parts = append(parts, part{Text: &text})
	}
	for _, m := range fresh {
		if m.Role == backend.User {
			parts = append(parts, partsOf(m, !talk)...)
		}
	}
	return parts
}

// partsOf returns the parts of a message of the user, its texts only where they are not part of a conversation.
func partsOf(m backend.Message, texts bool) (parts []part) {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case backend.Text:
			if texts {
				parts = append(parts, part{Text: &p.Text})
			}
		case backend.Media:
			parts = append(parts, mediaOf(p.Input))
		}
	}
	return parts
}

func mediaOf(p event.InputPart) part {
	if p.Type == event.ContentText {
		return part{Text: &p.Text}
	}
	one := part{Filename: p.Name, MediaType: p.MediaType}
	if len(p.Data) > 0 {
		one.Raw = p.Data
	} else {
		one.URL = p.URL
	}
	return one
}

// questions returns the task that asked with the agent's last message, and what the user has answered since; "" if none did.
func questions(messages []backend.Message) (taskID string, parts []part) {
	calls := map[string]note{}
	var said []part
	for _, m := range messages {
		if m.Role == backend.Assistant {
			clear(calls)
			taskID, parts, said = "", nil, nil
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Call:
				if n := read(p.Signature); n.Message != "" || n.Action != "" {
					calls[p.ID] = n
				}
			case backend.Result:
				n, ok := calls[p.ID]
				if !ok {
					continue
				}
				taskID = n.Task
				parts = append(parts, n.answer(p))
			}
		}
		if m.Role == backend.User {
			said = append(said, partsOf(m, true)...)
		}
	}
	if len(said) > 0 && taskID != "" { // the user has said something else
		return taskID, said
	}
	return taskID, parts
}

// answer returns the answer to a question: the data that an agent of agentbus reads, or a text.
func (n note) answer(p backend.Result) part {
	if n.Action == "" {
		text := p.Content
		if p.Status != event.ToolSuccess {
			text = "The user has not answered: " + cmp.Or(p.Content, string(p.Status))
		}
		return part{Text: &text}
	}
	answer := map[string]any{"actionId": n.Action}
	switch {
	case n.Kind == event.ContinueApproval:
		answer["approved"] = p.Status == event.ToolSuccess
		if p.Status != event.ToolSuccess {
			answer["reason"] = strings.TrimPrefix(strings.TrimPrefix(p.Content, "the user denied this call"), ": ")
		}
	case p.Status != event.ToolSuccess:
		answer["error"] = cmp.Or(p.Content, string(p.Status))
	case n.Kind == event.ContinueInput:
		answer["answer"] = p.Content
	case jsontext.Value(p.Content).IsValid():
		answer["result"] = json.RawMessage(p.Content)
	default:
		answer["result"] = p.Content
	}
	return part{Data: raw(answer), MediaType: "application/json"}
}

// raw encodes a value that was decoded from JSON.
func raw(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, jsonv2.Deterministic(true))
	if err != nil {
		return nil
	}
	return text
}
