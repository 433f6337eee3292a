package responses

import (
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

// Response is a request of an agent as these APIs describe it. Members that are always present in OpenAI's
// are null without a value.
type Response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	AccessPrograms     *string            `json:"access_programs"` // null
	CreatedAt          int64              `json:"created_at"`      // Unix time in seconds
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	CompletedAt        *int64             `json:"completed_at"`
	Conversation       *conversationRef   `json:"conversation"`
	Error              *Error             `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	Metadata           map[string]string  `json:"metadata"`
	Model              string             `json:"model"`
	Output             []Item             `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Reasoning          reasoning          `json:"reasoning"`
	Store              bool               `json:"store"`
	Temperature        *float64           `json:"temperature"`
	Text               textConfig         `json:"text"`
	ToolChoice         any                `json:"tool_choice"` // a string, or toolChoice
	Tools              []Tool             `json:"tools"`
	TopP               *float64           `json:"top_p"`
	Truncation         string             `json:"truncation"`
	Usage              *Usage             `json:"usage,omitzero"`
}

type conversationRef struct {
	ID string `json:"id"`
}

// Error is why a response failed. Type is the code of this server.
type Error struct {
	Code    string `json:"code"` // server_error, rate_limit_exceeded, invalid_prompt
	Message string `json:"message"`
	Type    string `json:"type"`
}

type incompleteDetails struct {
	Reason string `json:"reason"` // max_output_tokens, max_messages, content_filter
}

type reasoning struct {
	Effort  *string `json:"effort"`  // null
	Summary *string `json:"summary"` // null
}

type textConfig struct {
	Format *format `json:"format,omitzero"`
}

// format is the format of the text of a response.
type format struct {
	Type   string          `json:"type"` // text, json_object, json_schema
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitzero"`
	Strict bool            `json:"strict,omitzero"`
}

// Tool is a tool that a request declares.
type Tool struct {
	Type          string `json:"type"` // function, mcp
	wire.Function `json:",embed"`
	Strict        bool   `json:"strict"`
	ServerLabel   string `json:"server_label,omitempty"` // of mcp
}

// toolChoice is a choice that names a tool.
type toolChoice struct {
	Type string `json:"type"` // function
	Name string `json:"name"`
}

// about is the member "openai" of a request's metadata: what only a response of this API has.
type about struct {
	Created      int64             `json:"created,omitzero"` // Unix time in seconds
	Background   bool              `json:"background,omitzero"`
	Previous     string            `json:"previous,omitempty"` // request
	Conversation bool              `json:"conversation,omitzero"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

type metadata struct {
	OpenAI about `json:"openai"`
}

func readMetadata(text json.RawMessage) about {
	var m metadata
	if len(text) > 0 && jsonv2.Unmarshal(text, &m) != nil {
		return about{}
	}
	return m.OpenAI
}

const (
	object = "response"

	// prefix is the beginning of the id of a response, which is followed by that of its request.
	prefix = "resp_"
)

// ID returns the id of the response of a request.
func ID(requestID string) string { return prefix + requestID }

// RequestID returns the request of a response. The id of a request is also accepted.
func RequestID(responseID string) string { return strings.TrimPrefix(responseID, prefix) }

// newResponse returns a response whose input has not been read.
func newResponse() Response {
	return Response{
		Object: object, Status: statusInProgress, Metadata: map[string]string{}, Output: []Item{}, ParallelToolCalls: true, Store: true,
		Text: textConfig{&format{Type: "text"}}, ToolChoice: string(event.ChooseAuto), Tools: []Tool{}, Truncation: "disabled",
	}
}

// describe adds what the request has asked for.
func (r *Response) describe(in event.Input) {
	note, o := readMetadata(in.Metadata), in.Options
	r.CreatedAt, r.Background, r.Model = note.Created, note.Background, in.AgentID
	if note.Metadata != nil {
		r.Metadata = note.Metadata
	}
	if note.Previous != "" {
		previous := ID(note.Previous)
		r.PreviousResponseID = &previous
	}
	if note.Conversation {
		r.Conversation = &conversationRef{in.ThreadID}
	}
	if in.System != "" {
		r.Instructions = &in.System
	}
	if o.MaxTokens > 0 {
		r.MaxOutputTokens = &o.MaxTokens
	}
	r.Temperature, r.TopP = o.Temperature, o.TopP
	if o.ResponseFormat != nil {
		r.Text.Format = formatOf(*o.ResponseFormat)
	}
	if o.ToolChoice != nil {
		r.ToolChoice = choiceOf(*o.ToolChoice)
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, Tool{Type: "function", Function: wire.Function{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
}

func formatOf(f event.ResponseFormat) *format {
	switch f.Type {
	case event.FormatJSON:
		return &format{Type: "json_object"}
	case event.FormatSchema:
		return &format{Type: "json_schema", Name: f.Name, Schema: f.Schema, Strict: f.Strict}
	default:
		return &format{Type: "text"}
	}
}

func choiceOf(c event.ToolChoice) any {
	if c.Mode == event.ChooseTool {
		return toolChoice{"function", c.Name}
	}
	return string(c.Mode)
}

// end sets how the response ended, and returns the type of the event that reports it. A response that was cancelled is reported as
// incomplete: OpenAI has no event for it, and its clients refuse unknown ones.
func (r *Response) end(body event.Body, at int64) string {
	switch b := body.(type) {
	case event.Done:
		r.Usage = usageOf(&b.Usage)
		if reason := incompleteReason(b.FinishReason); reason != "" {
			r.Status, r.IncompleteDetails = statusIncomplete, &incompleteDetails{reason}
			return incomplete
		}
		r.Status, r.CompletedAt = statusCompleted, &at
		return completed
	case event.Error:
		r.Usage = usageOf(b.Usage)
		r.Status, r.Error = statusFailed, &Error{errorCode(b.Code), wire.NewError(b.Code, b.Message).Message, string(b.Code)}
		return failed
	case event.Aborted:
		r.Usage = usageOf(b.Usage)
		r.Status = statusCancelled
		return incomplete
	default:
		return incomplete
	}
}

// incompleteReason returns why an answer is not complete; "" = it is.
func incompleteReason(r event.FinishReason) string {
	switch r {
	case event.FinishLength, event.FinishBudget:
		return "max_output_tokens"
	case event.FinishMaxTurns:
		return "max_messages"
	case event.FinishContentFilter:
		return "content_filter"
	default:
		return ""
	}
}

// errorCode returns the code of OpenAI for a code of this server.
func errorCode(code apierr.Code) string {
	switch code {
	case apierr.RateLimitExceeded:
		return "rate_limit_exceeded"
	case apierr.InvalidMessageFormat, apierr.MessageTooLarge:
		return "invalid_prompt"
	default:
		return "server_error"
	}
}
