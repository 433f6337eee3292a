package anthropic

import (
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/go-json-experiment/json"
)

// setOptions translates the options of the turn. Without temperature and topP an answer is still an answer, so where the
// model does not take them, a warning says so. An option without which the answer would not be what was asked for is an error.
func (q *query) setOptions(turn backend.Turn) error {
	p, o := &q.params, turn.Request
	thinks := q.thinks()
	switch {
	case o.Temperature == nil:
	case !q.traits.sampling || thinks:
		q.warn("%s takes no temperature%s; it is ignored", p.Model, whileThinking(q.traits.sampling))
	default:
		p.Temperature = sdk.Float(min(*o.Temperature, 1)) // the highest of the API
	}
	switch {
	case o.TopP == nil:
	case !q.traits.sampling || thinks && *o.TopP < 0.95:
		q.warn("%s takes no topP%s; it is ignored", p.Model, whileThinking(q.traits.sampling))
	default:
		p.TopP = sdk.Float(*o.TopP)
	}
	p.StopSequences = o.Stop
	if o.ToolChoice != nil && len(turn.Tools) > 0 {
		if forces(turn) && !q.traits.forced {
			return apierr.New(apierr.AgentError, "%s cannot be forced to call a tool; leave toolChoice out, or set it to auto or none", p.Model)
		}
		p.ToolChoice = toolChoice(*o.ToolChoice)
	}
	return q.setFormat(o.ResponseFormat)
}

func whileThinking(sampling bool) string {
	if sampling {
		return " while it thinks"
	}
	return ""
}

func toolChoice(c event.ToolChoice) sdk.ToolChoiceUnionParam {
	switch c.Mode {
	case event.ChooseNone:
		none := sdk.NewToolChoiceNoneParam()
		return sdk.ToolChoiceUnionParam{OfNone: &none}
	case event.ChooseAuto:
		return sdk.ToolChoiceUnionParam{OfAuto: &sdk.ToolChoiceAutoParam{}}
	case event.ChooseTool:
		return sdk.ToolChoiceParamOfTool(c.Name)
	default:
		return sdk.ToolChoiceUnionParam{OfAny: &sdk.ToolChoiceAnyParam{}}
	}
}

func (q *query) setFormat(f *event.ResponseFormat) error {
	switch {
	case f == nil || f.Type == event.FormatText:
	case f.Type == event.FormatJSON:
		return apierr.New(apierr.AgentError, "Anthropic's API has no response format json; use json_schema with a schema")
	default:
		if err := json.Unmarshal(f.Schema, &q.params.OutputConfig.Format.Schema); err != nil {
			return apierr.Wrap(err, apierr.AgentError, "the schema of the response format is not a JSON object")
		}
	}
	return nil
}
