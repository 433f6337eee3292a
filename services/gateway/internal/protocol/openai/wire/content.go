package wire

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// part is a content part of either API: those of Chat Completions are text, refusal, image_url and file; those of Responses
// begin with input_ or output_.
type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"` // a URL, or an object with the member url
	File     *file           `json:"file"`
	FileURL  string          `json:"file_url"`
	file     `json:",embed"`
}

type file struct {
	Data string `json:"file_data"` // a data URL, or base64
	Name string `json:"filename"`
	ID   string `json:"file_id"`
}

// parts is the list that [codec.AtMost] bounds.
var parts = codec.AtMost[part](MaxParts, "")

// Content decodes the content of a message: a string, or an array of parts. where is its place in the body, for errors.
func Content(where string, value json.RawMessage) (event.InputContent, error) {
	switch jsontext.Value(value).Kind() {
	case jsontext.KindInvalid, jsontext.KindNull:
		return nil, nil
	case jsontext.KindString:
		var text string
		if err := jsonv2.Unmarshal(value, &text); err != nil {
			return nil, codec.Explain(err)
		}
		return textContent(text), nil
	case jsontext.KindBeginArray:
		var list []part
		if err := jsonv2.Unmarshal(value, &list, jsonv2.WithUnmarshalers(parts)); err != nil {
			return nil, Invalid("%s is not an array of at most %d content parts", where, MaxParts)
		}
		return inputParts(where, list)
	default:
		return nil, Invalid("%s must be a string or an array of content parts", where)
	}
}

func textContent(text string) event.InputContent {
	if text == "" {
		return nil
	}
	return event.InputContent{{Type: event.ContentText, Text: text}}
}

func inputParts(where string, list []part) (event.InputContent, error) {
	content := make(event.InputContent, 0, len(list))
	for i, p := range list {
		one, err := p.input(where + "[" + strconv.Itoa(i) + "]")
		if err != nil {
			return nil, err
		}
		content = append(content, one)
	}
	return content, nil
}

func (p part) input(where string) (event.InputPart, error) {
	switch p.Type {
	case "text", "input_text", "output_text":
		return event.InputPart{Type: event.ContentText, Text: p.Text}, nil
	case "refusal":
		return event.InputPart{Type: event.ContentText, Text: p.Refusal}, nil
	case "image_url", "input_image":
		return p.image(where)
	case "file", "input_file":
		return p.document(where)
	default:
		return event.InputPart{}, Invalid("%s.type is %.40q; text, images and files are supported", where, p.Type)
	}
}

func (p part) image(where string) (event.InputPart, error) {
	one := event.InputPart{Type: media.Image}
	var address string
	var object struct {
		URL string `json:"url"`
	}
	switch {
	case IsNull(p.ImageURL):
		return one, Invalid("%s.image_url is missing; images by file_id are not supported", where)
	case jsonv2.Unmarshal(p.ImageURL, &address) == nil:
	case jsonv2.Unmarshal(p.ImageURL, &object) == nil:
		address = object.URL
	default:
		return one, Invalid("%s.image_url must be a URL", where)
	}
	return source(where+".image_url", one, address)
}

func (p part) document(where string) (event.InputPart, error) {
	f := p.file
	if p.File != nil {
		f, where = *p.File, where+".file"
	}
	one := event.InputPart{Type: media.File, Name: f.Name}
	switch {
	case p.FileURL != "":
		return source(where+".file_url", one, p.FileURL)
	case f.Data == "":
		return one, Invalid("%s.file_data is missing; files by file_id are not supported", where)
	case !strings.HasPrefix(f.Data, "data:"):
		data, err := base64.StdEncoding.DecodeString(f.Data)
		if err != nil {
			return one, Invalid("%s.file_data must be base64, or a data URL", where)
		}
		one.Data = data
		return one, nil
	default:
		return source(where+".file_data", one, f.Data)
	}
}

// source sets where the data of a part is: in a data URL, or at another URL.
func source(where string, one event.InputPart, address string) (event.InputPart, error) {
	rest, inline := strings.CutPrefix(address, "data:")
	if !inline {
		one.URL = address
		return one, nil
	}
	about, text, found := strings.Cut(rest, ",")
	mediaType, encoded := strings.CutSuffix(about, ";base64")
	data, err := base64.StdEncoding.DecodeString(text)
	if !found || !encoded || err != nil {
		return one, Invalid("%s must be an https URL or a data URL such as data:image/png;base64,…", where)
	}
	one.Data, one.MediaType = data, mediaType
	return one, nil
}
