package tarko

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Content is the parts of a message. In JSON it is a string, or an array of parts (ChatCompletionContentPart[] of Agent
// TARS).
type Content []Part

// The types of parts.
const (
	PartText  = "text"
	PartImage = "image_url"
	PartFile  = "file"
)

// Part is a part of a message, in the format of OpenAI's chat completions.
type Part struct {
	Type  string    `json:"type"`
	Text  string    `json:"text,omitempty"`
	Image *ImageURL `json:"image_url,omitempty"`
	File  *FileData `json:"file,omitempty"`
}

// ImageURL is an image by URL; data is a data URL.
type ImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// FileData is a file: its bytes as a data URL or, as an extension of OpenAI's format, its URL.
type FileData struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data,omitempty"`
	URL  string `json:"url,omitempty"`
}

// TextContent returns a content of one text.
func TextContent(text string) Content { return Content{{Type: PartText, Text: text}} }

// MarshalJSON writes a single text as a string, and anything else as an array of parts.
func (c Content) MarshalJSON() ([]byte, error) {
	if len(c) == 0 {
		return []byte(`""`), nil
	}
	if len(c) == 1 && c[0].Type == PartText {
		return json.Marshal(c[0].Text)
	}
	return json.Marshal([]Part(c))
}

// UnmarshalJSON reads a string or an array of parts.
func (c *Content) UnmarshalJSON(value []byte) error {
	switch jsontext.Value(value).Kind() {
	case jsontext.KindString:
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
		*c = TextContent(text)
		return nil
	case jsontext.KindBeginArray:
		return json.Unmarshal(value, (*[]Part)(c))
	default:
		return fmt.Errorf("it must be a string, or an array of parts such as {\"type\":\"text\",\"text\":\"hi\"}")
	}
}

// contentOf converts an input for clients. Stored images and files become URLs.
func contentOf(parts event.InputContent, threadID string) Content {
	content := make(Content, 0, len(parts))
	for _, p := range parts {
		content = append(content, partOf(p, threadID))
	}
	return content
}

func partOf(p event.InputPart, threadID string) Part {
	switch p.Type {
	case event.ContentText:
		return Part{Type: PartText, Text: p.Text}
	case media.Image:
		return Part{Type: PartImage, Image: &ImageURL{URL: urlOf(p, threadID)}}
	default:
		if p.Ref == nil && len(p.Data) > 0 {
			return Part{Type: PartFile, File: &FileData{Name: p.Name, Data: dataURL(p)}}
		}
		return Part{Type: PartFile, File: &FileData{Name: p.Name, URL: urlOf(p, threadID)}}
	}
}

func urlOf(p event.InputPart, threadID string) string {
	switch {
	case p.Ref != nil:
		return objectPath(threadID, *p.Ref)
	case len(p.Data) > 0:
		return dataURL(p)
	default:
		return p.URL
	}
}

func dataURL(p event.InputPart) string {
	return "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// objectPath returns the path under which the gateway serves a thread's object.
func objectPath(threadID string, ref event.ObjectRef) string {
	return "/v1/threads/" + threadID + "/objects/" + ref.Object
}

// Input converts c for a request. An invalid part is an *apierr.Error whose message begins with where.
func (c Content) Input(where string) (event.InputContent, error) {
	input := make(event.InputContent, 0, len(c))
	for i, p := range c {
		if p.Type == PartText && p.Text == "" && len(c) > 1 {
			continue // Tarko's page sends one with an image and no words
		}
		at := where
		if len(c) > 1 || p.Type != PartText {
			at += "[" + strconv.Itoa(i) + "]"
		}
		part, err := p.input(at)
		if err != nil {
			return nil, err
		}
		input = append(input, part)
	}
	if len(input) == 0 {
		return nil, invalid("%s is empty; send some text", where)
	}
	return input, nil
}

func (p Part) input(where string) (event.InputPart, error) {
	switch {
	case p.Type == PartText && p.Text != "":
		return event.InputPart{Type: event.ContentText, Text: p.Text}, nil
	case p.Type == PartText:
		return event.InputPart{}, invalid("%s is empty; send some text", where)
	case p.Type == PartImage && p.Image != nil:
		return media.Check(where+".image_url", event.InputPart{Type: media.Image, URL: p.Image.URL})
	case p.Type == PartFile && p.File != nil && (p.File.Data == "" || p.File.URL == ""):
		return media.Check(where+".file", event.InputPart{Type: media.File, URL: p.File.Data + p.File.URL, Name: p.File.Name})
	default:
		return event.InputPart{}, invalid("%s must be {\"type\":\"text\",\"text\":…}, {\"type\":\"image_url\",\"image_url\":{\"url\":…}} or "+
			"{\"type\":\"file\",\"file\":{\"filename\":…,\"file_data\":\"data:…\"}}", where)
	}
}

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}
