package openai

import (
	"cmp"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// setOptions translates the options of the turn. The API has all of them.
func setOptions(p *sdk.ChatCompletionNewParams, turn backend.Turn) error {
	o := turn.Request
	if o.Temperature != nil {
		p.Temperature = sdk.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = sdk.Float(*o.TopP)
	}
	if len(o.Stop) > 0 {
		p.Stop.OfStringArray = o.Stop
	}
	if o.ToolChoice != nil && len(turn.Tools) > 0 { // without tools the API refuses a choice
		p.ToolChoice = toolChoice(*o.ToolChoice)
	}
	return setFormat(p, o.ResponseFormat)
}

func toolChoice(c event.ToolChoice) sdk.ChatCompletionToolChoiceOptionUnionParam {
	if c.Mode == event.ChooseTool {
		return sdk.ToolChoiceOptionFunctionToolChoice(sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: c.Name})
	}
	return sdk.ChatCompletionToolChoiceOptionUnionParam{OfAuto: sdk.String(string(c.Mode))} // the API has the same names
}

func setFormat(p *sdk.ChatCompletionNewParams, f *event.ResponseFormat) error {
	switch {
	case f == nil:
	case f.Type == event.FormatJSON:
		p.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	case f.Type == event.FormatSchema:
		var schema map[string]any
		if err := json.Unmarshal(f.Schema, &schema); err != nil {
			return apierr.Wrap(err, apierr.AgentError, "the schema of the response format is not a JSON object")
		}
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: cmp.Or(f.Name, "response"), Schema: schema},
		}
		if f.Strict {
			p.ResponseFormat.OfJSONSchema.JSONSchema.Strict = sdk.Bool(true)
		}
	}
	return nil
}
