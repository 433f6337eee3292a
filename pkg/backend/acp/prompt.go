package acp

import (
	"fmt"
	"strings"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// maxPrompt limits a conversation in a prompt, in bytes; the newest part of a longer one is sent.
const maxPrompt = 512 << 10

// blocks is the prompt of a turn: what the session has not received. The first prompt of a session begins with the
// instructions, for which the protocol has no member.
func blocks(turn backend.Turn, resumed bool, can protocol.PromptCapabilities) []protocol.Content {
	all, decided := decisions(turn.Messages)
	known := 0
	if resumed {
		known = min(turn.Known, len(all))
	}
	if known > 0 && decided[known-1] { // the answers count as part of the turn that asked, which has ended without them
		known--
	}
	messages, media := withoutMedia(all[known:], can)
	text := prompt.Of(messages, maxPrompt)
	if turn.System != "" && !resumed {
		text = strings.TrimSpace(turn.System) + "\n\n" + text
	}
	if text == "" && len(media) == 0 {
		text = "Continue."
	}
	if text != "" {
		media = append([]protocol.Content{protocol.TextContent(text)}, media...)
	}
	return media
}

// withoutMedia takes the images and files out of the last message that the program can read as such.
func withoutMedia(messages []backend.Message, can protocol.PromptCapabilities) ([]backend.Message, []protocol.Content) {
	if len(messages) == 0 {
		return messages, nil
	}
	last := messages[len(messages)-1]
	kept := backend.Message{Role: last.Role}
	var media []protocol.Content
	for _, p := range last.Parts {
		m, ok := p.(backend.Media)
		if c := content(m.Input, can); ok && c.Type != "" {
			media = append(media, c)
			continue
		}
		kept.Parts = append(kept.Parts, p)
	}
	return append(messages[:len(messages)-1:len(messages)-1], kept), media
}

// content is an image or file as the program reads it; its zero value if it does not.
func content(p event.InputPart, can protocol.PromptCapabilities) protocol.Content {
	switch {
	case p.Type == "image" && len(p.Data) > 0 && can.Image:
		return protocol.Content{Type: protocol.ContentImage, Data: p.Data, MIMEType: p.MediaType, URI: ""}
	case p.Type == "file" && len(p.Data) > 0 && can.EmbeddedContext:
		return protocol.Content{Type: protocol.ContentResource, Resource: &protocol.Resource{
			URI: "attachment:///" + p.Name, MIMEType: p.MediaType, Blob: p.Data,
		}}
	case p.URL != "":
		return protocol.Content{Type: protocol.ContentLink, Name: p.URL, URI: p.URL, MIMEType: p.MediaType}
	default:
		return protocol.Content{}
	}
}

// decisions returns the messages with the answers to questions as messages of the user, so that the program reads what the
// user has decided. The second result marks these messages.
func decisions(messages []backend.Message) ([]backend.Message, []bool) {
	asked := map[string]question{}
	all := make([]backend.Message, 0, len(messages))
	decided := make([]bool, len(messages))
	for i, m := range messages {
		answer := backend.Message{Role: backend.User}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Call:
				var q question
				if p.Name == permissionTool && json.Unmarshal(p.Args, &q) == nil {
					asked[p.ID] = q
				}
			case backend.Result:
				if q, ok := asked[p.ID]; ok {
					answer.Parts = append(answer.Parts, backend.Text{Text: q.decided(p)})
				}
			}
		}
		if len(answer.Parts) > 0 {
			m, decided[i] = answer, true
		}
		all = append(all, m)
	}
	return all, decided
}

func (q question) decided(r backend.Result) string {
	if r.Status == event.ToolSuccess && agrees(r.Content) {
		return fmt.Sprintf("The user has allowed this call, which was cancelled before: %s %s. Make it again, and continue.", q.Tool, q.Args)
	}
	return fmt.Sprintf("The user has not allowed this call: %s %s. The answer was: %s", q.Tool, q.Args, r.Content)
}
