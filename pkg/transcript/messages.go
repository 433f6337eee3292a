package transcript

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// noResult stands in for the result of a call whose request ended first: providers refuse calls without one.
const noResult = "this call has no result: the request ended before the tool did"

// Messages is the conversation for the model: each turn is one assistant's message, followed by one message with the
// results of all its calls. The blocks of an unfinished turn are not part of it.
//
// Where the thread has been compressed, a summary stands for what came before.
func (s *State) Messages() []backend.Message {
	return append(s.summary.messages(), s.contributions(s.entries)...)
}

func (s *State) contributions(entries []entry) []backend.Message {
	var messages []backend.Message
	for _, e := range entries {
		if e.fromUser() {
			messages = append(messages, backend.Message{Role: backend.User, Parts: e.user})
			continue
		}
		said, results := s.turn(e.blocks)
		messages = append(messages, backend.Message{Role: backend.Assistant, Parts: said, Refused: e.refused})
		if len(results) > 0 {
			messages = append(messages, backend.Message{Role: backend.Tool, Parts: results})
		}
	}
	return messages
}

func (s *State) turn(blocks []Block) (said, results []backend.Part) {
	for _, b := range blocks {
		switch b.Kind {
		case event.NameText, event.NameFinalAnswer:
			said = append(said, backend.Text{Text: b.Text, Signature: b.Signature})
		case event.NameThinking:
			said = append(said, backend.Thinking{Text: b.Text, Signature: b.Signature})
		case event.NameToolCall:
			said = append(said, b.call())
			results = append(results, s.result(b))
		default: // a tool_result is for clients: the model reads the output
		}
	}
	return said, results
}

func (s *State) result(b Block) backend.Result {
	output, ok := s.outputs[b.CallID]
	if !ok {
		output = event.ToolOutput{Status: event.ToolAborted, Content: noResult}
	}
	return backend.Result{ID: b.CallID, Name: b.Tool, Content: output.Content, Media: output.Media, Status: output.Status}
}

func userParts(content event.InputContent) []backend.Part {
	parts := make([]backend.Part, 0, len(content))
	for _, p := range content {
		if p.Type == event.ContentText {
			parts = append(parts, backend.Text{Text: p.Text})
			continue
		}
		parts = append(parts, backend.Media{Input: p})
	}
	return parts
}

// Objects fetches large payloads.
type Objects interface {
	Object(ctx context.Context, ref event.ObjectRef) ([]byte, error)
}

// Load fetches the tool outputs that the events only refer to.
func (s *State) Load(ctx context.Context, objects Objects) error {
	for id, output := range s.outputs {
		if output.Ref == nil || output.Content != "" {
			continue
		}
		content, err := objects.Object(ctx, *output.Ref)
		if err != nil {
			return fmt.Errorf("output of tool call %s: %w", id, err)
		}
		s.Keep(id, string(content))
	}
	return nil
}

// Keep remembers the content of an output whose event only refers to it.
func (s *State) Keep(callID, content string) {
	output := s.outputs[callID]
	output.Content = content
	s.outputs[callID] = output
}
