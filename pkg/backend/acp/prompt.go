package acp

import (
	"strings"

	protocol "github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/event"
)

// maxPrompt limits a conversation in a prompt, in bytes; the newest part of a longer one is sent.
const maxPrompt = 512 << 10

// blocks is the prompt of a turn: what the session has not received. The first prompt of a session begins with the
// instructions, for which the protocol has no member.
func blocks(turn backend.Turn, resumed bool, can protocol.PromptCapabilities) []protocol.Content {
	known := 0
	if resumed {
		known = turn.Known
	}
	messages, media := withoutMedia(permission.Conversation(turn.Messages, known), can)
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
