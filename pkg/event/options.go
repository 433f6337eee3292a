package event

import "encoding/json"

// RequestOptions are the options that a request sets for the model. A member that is absent leaves the agent's own setting.
type RequestOptions struct {
	Temperature    *float64        `json:"temperature,omitempty"` // 0 to 2
	TopP           *float64        `json:"topP,omitempty"`        // 0 to 1
	Stop           []string        `json:"stop,omitempty"`        // texts that end an answer
	MaxTokens      int             `json:"maxTokens,omitzero"`    // of one answer; a lower limit of the agent has priority
	ToolChoice     *ToolChoice     `json:"toolChoice,omitempty"`
	ResponseFormat *ResponseFormat `json:"responseFormat,omitempty"`
}

// IsZero makes options without a member absent from the JSON.
func (o RequestOptions) IsZero() bool {
	return o.Temperature == nil && o.TopP == nil && len(o.Stop) == 0 && o.MaxTokens == 0 && o.ToolChoice == nil && o.ResponseFormat == nil
}

// Or returns the options over, and those of o where over has none.
func (o RequestOptions) Or(over RequestOptions) RequestOptions {
	if over.Temperature != nil {
		o.Temperature = over.Temperature
	}
	if over.TopP != nil {
		o.TopP = over.TopP
	}
	if len(over.Stop) > 0 {
		o.Stop = over.Stop
	}
	if over.MaxTokens != 0 {
		o.MaxTokens = over.MaxTokens
	}
	if over.ToolChoice != nil {
		o.ToolChoice = over.ToolChoice
	}
	if over.ResponseFormat != nil {
		o.ResponseFormat = over.ResponseFormat
	}
	return o
}

// ToolChoice says whether the model must call a tool. ChooseRequired and ChooseTool apply to the request's first turn:
// later turns may answer.
type ToolChoice struct {
	Mode ToolMode `json:"mode"`
	Name string   `json:"name,omitempty"` // of the tool, with ChooseTool
}

// ToolMode is the kind of a [ToolChoice].
type ToolMode string

// The modes.
const (
	ChooseAuto     ToolMode = "auto"     // the model decides
	ChooseNone     ToolMode = "none"     // it must not call a tool
	ChooseRequired ToolMode = "required" // it must call at least one
	ChooseTool     ToolMode = "tool"     // it must call the named one
)

// ResponseFormat is the format of the model's answer.
type ResponseFormat struct {
	Type   FormatType      `json:"type"`
	Name   string          `json:"name,omitempty"`  // of the schema
	Schema json.RawMessage `json:"schema,omitzero"` // with FormatSchema: a JSON Schema
	Strict bool            `json:"strict,omitzero"` // with FormatSchema: the provider enforces it
}

// FormatType is the kind of a [ResponseFormat].
type FormatType string

// The formats.
const (
	FormatText   FormatType = "text"
	FormatJSON   FormatType = "json"        // any JSON object
	FormatSchema FormatType = "json_schema" // JSON that fits a schema
)
