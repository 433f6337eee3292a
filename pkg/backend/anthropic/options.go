package anthropic

import (
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/go-json-experiment/json"
)

// setOptions translates the options of the request. The API has no format for JSON without a schema, and with thinking it
// refuses a temperature, topP below 0.95 and a tool that the model must call: these options are then left out.
func setOptions(p *sdk.MessageNewParams, turn backend.Turn) error {
	o := turn.Request
	thinks := p.Thinking.OfEnabled != nil
	if o.Temperature != nil && !thinks {
		p.Temperature = sdk.Float(min(*o.Temperature, 1)) // the highest of the API
	}
	if o.TopP != nil && (!thinks || *o.TopP >= 0.95) {
		p.TopP = sdk.Float(*o.TopP)
	}
	p.StopSequences = o.Stop
	if o.ToolChoice != nil && len(turn.Tools) > 0 {
		p.ToolChoice = toolChoice(*o.ToolChoice, thinks)
	}
	if f := o.ResponseFormat; f != nil && f.Type == event.FormatSchema {
		if err := json.Unmarshal(f.Schema, &p.OutputConfig.Format.Schema); err != nil {
			return apierr.Wrap(err, apierr.AgentError, "the schema of the response format is not a JSON object")
		}
	}
	return nil
}

func toolChoice(c event.ToolChoice, thinks bool) sdk.ToolChoiceUnionParam {
	switch {
	case c.Mode == event.ChooseNone:
		none := sdk.NewToolChoiceNoneParam()
		return sdk.ToolChoiceUnionParam{OfNone: &none}
	case thinks || c.Mode == event.ChooseAuto:
		return sdk.ToolChoiceUnionParam{OfAuto: &sdk.ToolChoiceAutoParam{}}
	case c.Mode == event.ChooseTool:
		return sdk.ToolChoiceParamOfTool(c.Name)
	default:
		return sdk.ToolChoiceUnionParam{OfAny: &sdk.ToolChoiceAnyParam{}}
	}
}
