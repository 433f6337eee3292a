package wire

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	jsonv2 "github.com/go-json-experiment/json"
)

// partOf returns a part of a message. An object is named by its path on the gateway.
func partOf(p event.InputPart, threadID string) Part {
	if p.Type == event.ContentText {
		return textPart(p.Text)
	}
	part := Part{URL: p.URL, Filename: p.Name, MediaType: p.MediaType}
	switch {
	case p.Ref != nil:
		part.URL = "/v1/threads/" + threadID + "/objects/" + p.Ref.Object
	case len(p.Data) > 0:
		part.Raw = p.Data
	}
	return part
}

// input converts a part that a client sent. The model reads data as JSON.
func (p Part) input(where string) (event.InputPart, error) {
	given := 0
	for _, has := range []bool{p.Text != nil, len(p.Raw) > 0, p.URL != "", len(p.Data) > 0} {
		if has {
			given++
		}
	}
	if given != 1 {
		return event.InputPart{}, invalid("%s must have one of text, raw, url and data", where)
	}
	switch {
	case p.Text != nil:
		return event.InputPart{Type: event.ContentText, Text: *p.Text}, nil
	case len(p.Data) > 0:
		return event.InputPart{Type: event.ContentText, Text: string(p.Data)}, nil
	}
	one := event.InputPart{Type: media.File, URL: p.URL, Data: p.Raw, MediaType: p.MediaType, Name: p.Filename}
	if len(p.Raw) > 0 {
		one.MediaType = cmp.Or(p.MediaType, media.Type(p.Raw))
	}
	if media.IsImage(one.MediaType) {
		one.Type = media.Image
	}
	return one, nil
}

// about is the member "a2a" of a request's metadata.
type about struct {
	TaskID    string `json:"taskId,omitempty"` // that the request continues
	MessageID string `json:"messageId,omitempty"`
}

type metadata struct {
	A2A about `json:"a2a"`
}

// Note returns the metadata of a request that a message makes. taskID is the task that it continues; "" = it begins one.
func Note(taskID, messageID string) json.RawMessage {
	return encode(metadata{about{taskID, messageID}})
}

func readNote(note json.RawMessage) about {
	var m metadata
	if len(note) > 0 && jsonv2.Unmarshal(note, &m) != nil {
		return about{}
	}
	return m.A2A
}

// Continues returns the task that a client of this protocol has continued by a request with this metadata; "" = it has not.
func Continues(note json.RawMessage) string { return readNote(note).TaskID }

// messagesOf returns what the user has sent with an input. An answer to actions is a message of data parts.
func (f *Fold) messagesOf(b event.Input) []Message {
	note := readNote(b.Metadata)
	var all []Message
	add := func(id string, parts []Part) {
		all = append(all, Message{MessageID: id, ContextID: f.contextID, TaskID: f.taskID, Role: RoleUser, Parts: parts})
	}
	if len(b.ActionResults) > 0 {
		var parts []Part
		for _, r := range b.ActionResults {
			parts = append(parts, dataPart(r))
		}
		add(cmp.Or(note.MessageID, f.requestID+"-answer"), parts)
	}
	for i, m := range b.Messages {
		parts := make([]Part, 0, len(m.Content))
		for _, p := range m.Content {
			parts = append(parts, partOf(p, f.contextID))
		}
		add(cmp.Or(m.ID, cmp.Or(b.SteerID, f.requestID+"-user")+"-"+strconv.Itoa(i)), parts)
	}
	return all
}
