package editor

import (
	"strings"

	"github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/event"
)

// userMessage is a prompt as a message to the agent.
func userMessage(prompt []acp.Content) (event.InputMessage, error) {
	message := event.InputMessage{Role: event.RoleUser}
	for _, c := range prompt {
		part, err := inputPart(c)
		if err != nil {
			return message, err
		}
		message.Content = append(message.Content, part)
	}
	if len(message.Content) == 0 {
		return message, acp.Errorf(acp.CodeInvalidParams, "the prompt is empty")
	}
	return message, nil
}

func inputPart(c acp.Content) (event.InputPart, error) {
	switch c.Type {
	case acp.ContentText:
		return textPart(c.Text), nil
	case acp.ContentImage:
		return event.InputPart{Type: "image", Data: c.Data, MediaType: c.MIMEType}, nil
	case acp.ContentLink: // the file is on the editor's machine: the agent reads its name
		return textPart("[" + c.Name + "](" + c.URI + ")"), nil
	case acp.ContentResource:
		return resourcePart(c.Resource)
	default:
		return event.InputPart{}, acp.Errorf(acp.CodeInvalidParams, "content of type %.40q is not supported in a prompt", c.Type)
	}
}

func resourcePart(r *acp.Resource) (event.InputPart, error) {
	if r == nil {
		return event.InputPart{}, acp.Errorf(acp.CodeInvalidParams, "content of type resource has no resource")
	}
	if len(r.Blob) > 0 {
		return event.InputPart{Type: "file", Data: r.Blob, MediaType: r.MIMEType, Name: r.URI[strings.LastIndex(r.URI, "/")+1:]}, nil
	}
	return textPart("<file uri=\"" + r.URI + "\">\n" + r.Text + "\n</file>"), nil
}

func textPart(text string) event.InputPart {
	return event.InputPart{Type: event.ContentText, Text: strings.ToValidUTF8(text, "\ufffd")}
}

// userContent is a message of the user as the editor shows it.
func userContent(content event.InputContent) []acp.Content {
	var blocks []acp.Content
	for _, p := range content {
		switch {
		case p.Type == event.ContentText && p.Text != "":
			blocks = append(blocks, acp.TextContent(p.Text))
		case p.Type == "image" && len(p.Data) > 0:
			blocks = append(blocks, acp.Content{Type: acp.ContentImage, Data: p.Data, MIMEType: p.MediaType})
		case p.Type != event.ContentText:
			blocks = append(blocks, acp.TextContent("["+p.Type+" "+p.Name+p.URL+"]"))
		}
	}
	return blocks
}
