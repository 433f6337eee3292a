package event

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// HasToolOutput reports whether the event contains output of a tool: what the tool prints while it runs, or its result for
// the model, also within the event of a subagent. An event that cannot be read counts as one that does.
func (l Line) HasToolOutput() bool {
	switch l.Name {
	case NameToolOutput:
		return true
	case NameToolResult, NameSubagent:
	default:
		return false
	}
	var head struct {
		Stage Stage          `json:"stage"`
		Inner jsontext.Value `json:"inner"`
	}
	if err := json.Unmarshal(l.JSON, &head); err != nil {
		return true
	}
	if l.Name == NameToolResult {
		return head.Stage == StageDelta
	}
	var inner struct {
		Event Name `json:"event"`
	}
	if err := json.Unmarshal(head.Inner, &inner); err != nil {
		return true
	}
	return Line{Name: inner.Event, JSON: head.Inner}.HasToolOutput()
}
