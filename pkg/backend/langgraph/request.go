package langgraph

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/media"
	jsonv2 "github.com/go-json-experiment/json"
)

// input is the body of a run.
type input struct {
	AssistantID       string          `json:"assistant_id"`
	Input             *messages       `json:"input,omitempty"`
	Command           *command        `json:"command,omitempty"`
	StreamMode        []string        `json:"stream_mode"`
	StreamSubgraphs   bool            `json:"stream_subgraphs"`
	StreamResumable   bool            `json:"stream_resumable"`
	OnDisconnect      string          `json:"on_disconnect"`
	MultitaskStrategy string          `json:"multitask_strategy"`
	Metadata          metadata        `json:"metadata"`
	Context           json.RawMessage `json:"context,omitzero"`
}

type messages struct {
	Messages []sentMessage `json:"messages"`
}

type command struct {
	Resume json.RawMessage `json:"resume"`
}

// metadata marks a run, so that a runner that takes the request over finds it.
type metadata struct {
	Mark string `json:"agentbus_turn"`
}

// sentMessage is a message in LangChain's format.
type sentMessage struct {
	Type    string `json:"type"` // human, ai, system
	ID      string `json:"id"`
	Content any    `json:"content"` // a string, or blocks
}

type sentBlock struct {
	Type     string    `json:"type"` // text, image_url, file
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
	URL      string    `json:"url,omitempty"`
	Base64   string    `json:"base64,omitempty"`
	MIMEType string    `json:"mime_type,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// mark identifies a turn: the request, and how often the user has spoken until then.
func mark(turn backend.Turn) string {
	spoken := 0
	for _, m := range turn.Messages {
		if m.Role == backend.User {
			spoken++
		}
	}
	return turn.RequestID + "-" + strconv.Itoa(spoken)
}

// encode returns the body of a run: the answers to the interrupts of the last one, or the messages after the first known ones.
func (r *run) encode(known int) ([]byte, error) {
	in := input{
		AssistantID: r.backend.assistant, StreamMode: []string{"messages-tuple", "updates", "custom"}, StreamSubgraphs: true, StreamResumable: true,
		OnDisconnect: "continue", MultitaskStrategy: "enqueue", Metadata: metadata{r.mark},
	}
	resumed, err := resume(r.turn.Messages)
	if err != nil {
		return nil, err
	}
	if resumed != nil {
		in.Command = &command{resumed}
	} else {
		in.Input = &messages{r.conversation(known)}
	}
	if len(r.turn.Options) > 0 {
		var options struct {
			Context json.RawMessage `json:"context"`
		}
		if err := jsonv2.Unmarshal(r.turn.Options, &options); err != nil {
			return nil, fmt.Errorf("options of the turn: %w", err)
		}
		in.Context = options.Context
	}
	body, err := jsonv2.Marshal(in, jsonv2.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the run: %w", err)
	}
	return body, nil
}

// conversation returns the texts after the first known messages. The ids are the same when a run is started again: the server
// replaces a message that it has.
func (r *run) conversation(known int) []sentMessage {
	all := []sentMessage{}
	if r.turn.System != "" && known == 0 {
		all = append(all, sentMessage{Type: "system", ID: id.Derive("msg", r.thread, "system"), Content: r.turn.System})
	}
	for i, m := range r.turn.Messages[known:] {
		name := strconv.Itoa(known + i)
		switch m.Role {
		case backend.User:
			all = append(all, sentMessage{Type: "human", ID: id.Derive("msg", r.thread, name, textOf(m.Parts)), Content: content(m.Parts)})
		case backend.Assistant:
			if text := textOf(m.Parts); text != "" {
				all = append(all, sentMessage{Type: "ai", ID: id.Derive("msg", r.thread, name, text), Content: text})
			}
		case backend.Tool: // the agent has the results of its tools
		}
	}
	return all
}

func textOf(parts []backend.Part) (text string) {
	for _, p := range parts {
		if p, ok := p.(backend.Text); ok {
			text += p.Text
		}
	}
	return text
}

// content is the content of a user's message: a string if it is text alone.
func content(parts []backend.Part) any {
	blocks, plain := []sentBlock{}, true
	for _, p := range parts {
		switch p := p.(type) {
		case backend.Text:
			blocks = append(blocks, sentBlock{Type: "text", Text: p.Text})
		case backend.Media:
			blocks, plain = append(blocks, mediaBlock(p.Input)), false
		}
	}
	if plain {
		return textOf(parts)
	}
	return blocks
}

func mediaBlock(p event.InputPart) sentBlock {
	data := base64.StdEncoding.EncodeToString(p.Data)
	switch {
	case p.Type == event.ContentText:
		return sentBlock{Type: "text", Text: p.Text}
	case p.Type == media.Image && data != "":
		return sentBlock{Type: "image_url", ImageURL: &imageURL{"data:" + p.MediaType + ";base64," + data}}
	case p.Type == media.Image:
		return sentBlock{Type: "image_url", ImageURL: &imageURL{p.URL}}
	default:
		return sentBlock{Type: "file", URL: p.URL, Base64: data, MIMEType: p.MediaType}
	}
}
