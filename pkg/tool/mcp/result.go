package mcp

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/tool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// read converts a server's result: its texts, images and files, or its structured content if it has nothing else. If
// the server marks it as an error, read returns an error with its text.
func read(r *sdk.CallToolResult) (tool.Result, error) {
	var parts parts
	for _, c := range r.Content {
		parts.add(c)
	}
	result := parts.result()
	if result.Content == "" && r.StructuredContent != nil {
		data, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return tool.Result{}, fmt.Errorf("structured content: %w", err)
		}
		result.Content = string(data)
	}
	if !r.IsError {
		return result, nil
	}
	if result.Content == "" {
		return tool.Result{}, apierr.New(apierr.ToolError, "the tool failed, and does not say why")
	}
	return tool.Result{Summary: "error, " + tool.Size(result.Content)}, apierr.New(apierr.ToolError, "%s", result.Content)
}

// parts are the pieces of a result.
type parts struct {
	texts []string
	media []event.InputPart
}

func (p *parts) add(c sdk.Content) {
	text, part := content(c)
	if part != nil {
		if kept, err := media.Check("content", *part); err == nil {
			p.media = append(p.media, kept)
			return
		}
		text = "[" + media.Describe(*part) + ": it cannot be shown]"
	}
	if text != "" {
		p.texts = append(p.texts, text)
	}
}

func (p *parts) result() tool.Result {
	return tool.Result{Content: strings.Join(p.texts, "\n"), Media: p.media}
}

// content is one piece as text, or as an image or file.
func content(c sdk.Content) (string, *event.InputPart) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text, nil
	case *sdk.ImageContent:
		return "", file(c.MIMEType, "", c.Data)
	case *sdk.AudioContent:
		return "", file(c.MIMEType, "", c.Data)
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "", nil
		}
		if len(c.Resource.Blob) == 0 {
			return c.Resource.URI + "\n" + c.Resource.Text, nil
		}
		return "", file(c.Resource.MIMEType, c.Resource.URI, c.Resource.Blob)
	case *sdk.ResourceLink:
		return strings.TrimSpace(fmt.Sprintf("%s: %s %s", c.Name, c.URI, c.Description)), nil
	default:
		return fmt.Sprintf("[content of a kind that cannot be shown: %T]", c), nil
	}
}

// file is an image where models see images of its type, and else a file. The bytes decide where the server is wrong.
func file(mediaType, uri string, data []byte) *event.InputPart {
	if is := media.Type(data); media.IsImage(is) || media.IsImage(mediaType) || mediaType == "" {
		mediaType = is
	}
	part := event.InputPart{Type: media.File, MediaType: mediaType, Data: data}
	if media.IsImage(mediaType) {
		part.Type = media.Image
	}
	if name := path.Base(uri); uri != "" && name != "/" && name != "." {
		part.Name = name
	}
	return &part
}
