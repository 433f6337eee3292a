package wire

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
)

// Part is a part of a message: a text, or media.
type Part struct {
	Type   string  `json:"type"` // text, image, audio, video, document
	Text   string  `json:"text,omitempty"`
	Source *Source `json:"source,omitempty"`
}

// Source is the data of a part, or where it is.
type Source struct {
	Type     string `json:"type"` // data, url
	Value    string `json:"value"`
	MimeType string `json:"mimeType,omitempty"`
}

// The types of parts and of their sources.
const (
	partText     = "text"
	partImage    = "image"
	partDocument = "document"
	sourceData   = "data"
	sourceURL    = "url"
)

// plain reports whether content is text alone.
func plain(content event.InputContent) bool {
	for _, p := range content {
		if p.Type != event.ContentText {
			return false
		}
	}
	return true
}

// contentOf returns the content of a message of a thread: a string if it is text alone.
func contentOf(content event.InputContent, threadID string) json.RawMessage {
	if plain(content) {
		return encode(content.Text())
	}
	parts := make([]Part, 0, len(content))
	for _, p := range content {
		parts = append(parts, partOf(p, threadID))
	}
	return encode(parts)
}

// resultContent returns the content of a tool's result: its summary, and the media that the tool returned.
func resultContent(b event.ToolResult, threadID string) json.RawMessage {
	if len(b.Media) == 0 {
		return encode(b.Summary)
	}
	parts := []Part{{Type: partText, Text: b.Summary}}
	for _, p := range b.Media {
		parts = append(parts, partOf(p, threadID))
	}
	return encode(parts)
}

// partOf returns a part. An object is named by its path on the gateway.
func partOf(p event.InputPart, threadID string) Part {
	if p.Type == event.ContentText {
		return Part{Type: partText, Text: p.Text}
	}
	part := Part{Type: partDocument, Source: &Source{Type: sourceURL, Value: p.URL, MimeType: p.MediaType}}
	if p.Type == media.Image {
		part.Type = partImage
	}
	switch {
	case p.Ref != nil:
		part.Source.Value = "/v1/threads/" + threadID + "/objects/" + p.Ref.Object
	case len(p.Data) > 0:
		part.Source.Type, part.Source.Value = sourceData, base64.StdEncoding.EncodeToString(p.Data)
	}
	return part
}

// inputParts converts the parts of a message that a client sent.
func inputParts(where string, parts []Part) (event.InputContent, error) {
	content := make(event.InputContent, 0, len(parts))
	for i, p := range parts {
		one, err := p.input(where + "[" + strconv.Itoa(i) + "]")
		if err != nil {
			return nil, err
		}
		content = append(content, one)
	}
	return content, nil
}

func (p Part) input(where string) (event.InputPart, error) {
	kind := media.File
	switch p.Type {
	case partText:
		return event.InputPart{Type: event.ContentText, Text: p.Text}, nil
	case partImage:
		kind = media.Image
	case "audio", "video", partDocument:
	default:
		return event.InputPart{}, invalid("%s.type is %.40q; use text, image, audio, video or document", where, p.Type)
	}
	if p.Source == nil {
		return event.InputPart{}, invalid("%s.source is missing", where)
	}
	one := event.InputPart{Type: kind, MediaType: p.Source.MimeType}
	switch p.Source.Type {
	case sourceURL:
		one.URL = p.Source.Value
	case sourceData:
		data, err := base64.StdEncoding.DecodeString(p.Source.Value)
		if err != nil {
			return one, invalid("%s.source.value is not base64", where)
		}
		one.Data = data
	default:
		return one, invalid("%s.source.type is %.40q; use \"data\" or \"url\"", where, p.Source.Type)
	}
	return one, nil
}
