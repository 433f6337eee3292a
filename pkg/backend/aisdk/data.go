package aisdk

import (
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// source emits a source or a file as a custom event.
func (r *reader) source(c chunk) error {
	name, value := "ai-sdk.source", map[string]string{"id": c.SourceID, "url": c.URL, "title": c.Title, "filename": c.Filename, "mediaType": c.MediaType}
	if c.Type == file || c.Type == reasoningFile {
		name = "ai-sdk.file"
		if len(c.URL) > event.MaxCustomBytes/2 {
			return r.once(backend.Warning(fmt.Sprintf("the agent sent a file of type %s that is too large for an event", c.MediaType)))
		}
	}
	for member, text := range value {
		if text == "" {
			delete(value, member)
		}
	}
	return r.custom(name, raw(value))
}

// data emits a data part: one of agentbus, which an agent of agentbus sends, as what it means, any other as a custom event of its
// name.
func (r *reader) data(name string, c chunk) error {
	if len(c.Data) == 0 {
		c.Data = json.RawMessage("{}")
	}
	if jsontext.Value(c.Data).Kind() != '{' {
		return r.custom(name, raw(map[string]any{"value": c.Data}))
	}
	var known struct {
		Message    string           `json:"message"`
		ToolCallID string           `json:"toolCallId"`
		Delta      string           `json:"delta"`
		Steps      []event.PlanStep `json:"steps"`
	}
	if jsonv2.Unmarshal(c.Data, &known) != nil {
		return r.custom(name, c.Data)
	}
	switch running := r.calls[known.ToolCallID]; {
	case name == string(event.NamePlan) && len(known.Steps) > 0:
		return r.once(backend.Plan{Steps: known.Steps})
	case name == string(event.NameNotice) && known.Message != "":
		return r.once(backend.Warning(known.Message))
	case name == string(event.NameToolOutput) && running != nil && known.Delta != "" && !running.handled:
		if err := r.start(running); err != nil {
			return err
		}
		return r.once(backend.ToolProgress{ID: running.id, Delta: known.Delta})
	}
	return r.custom(name, c.Data)
}

// custom emits an event of the application.
func (r *reader) custom(name string, value json.RawMessage) error {
	if _, err := event.NewCustom(name, value); err != nil {
		return nil //nolint:nilerr // the log has no such event: a name of ours, or data that is too large
	}
	return r.once(backend.Custom{Type: name, Data: value})
}

// once emits a chunk that has no id, unless an earlier connection has brought it.
func (r *reader) once(c backend.Chunk) error {
	r.seenEvents++
	if r.seenEvents <= r.events {
		return nil
	}
	r.events = r.seenEvents
	if len(r.repeat) > 0 {
		return nil
	}
	r.news++
	if err := r.endProse(); err != nil {
		return err
	}
	return r.emit(c)
}

// raw encodes a value that was decoded from JSON.
func raw(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, jsonv2.Deterministic(true))
	if err != nil {
		return nil
	}
	return text
}

// text is an output as text: a string without its quotes, any other value as JSON.
func text(output json.RawMessage) string {
	var s string
	if jsontext.Value(output).Kind() == '"' && jsonv2.Unmarshal(output, &s) == nil {
		return s
	}
	return string(output)
}
