package openai

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	jsonv2 "github.com/go-json-experiment/json"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// reasoners matches the names of models that reason. Others refuse to be asked for it.
var reasoners = regexp.MustCompile(`^(o\d|gpt-([5-9]|\d\d))`)

// params translates a turn. An error is final.
func (b *Responses) params(turn backend.Turn) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{Model: turn.Model, Store: sdk.Bool(false)}
	p.SafetyIdentifier, p.PromptCacheKey = identify(turn)
	p.Reasoning.Effort = effort(turn)
	if p.Reasoning.Effort != "" || reasoners.MatchString(turn.Model) && !strings.Contains(turn.Model, "-chat") {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
		p.Reasoning.Summary = shared.ReasoningSummaryAuto
	}
	if turn.MaxTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(turn.MaxTokens))
	}
	if turn.System != "" {
		p.Instructions = sdk.String(turn.System)
	}
	if err := setResponsesOptions(&p, turn); err != nil {
		return p, err
	}
	for _, m := range turn.Messages {
		items, err := responsesItems(turn.Model, m)
		if err != nil {
			return p, err
		}
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, items...)
	}
	for _, spec := range turn.Tools {
		f, err := function(spec)
		if err != nil {
			return p, err
		}
		if f.Parameters == nil { // the API wants a schema of every tool
			f.Parameters = shared.FunctionParameters{"type": "object", "properties": map[string]any{}}
		}
		t := responses.ToolParamOfFunction(f.Name, f.Parameters, false)
		t.OfFunction.Description = f.Description
		p.Tools = append(p.Tools, t)
	}
	return p, nil
}

// setResponsesOptions translates the options of the turn. The API has no texts that end an answer.
func setResponsesOptions(p *responses.ResponseNewParams, turn backend.Turn) error {
	o := turn.Request
	if len(o.Stop) > 0 {
		return apierr.New(apierr.AgentError, "the Responses API has no option stop; leave it out, or use the backend openai")
	}
	if o.Temperature != nil {
		p.Temperature = sdk.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = sdk.Float(*o.TopP)
	}
	if c := o.ToolChoice; c != nil && len(turn.Tools) > 0 {
		if c.Mode == event.ChooseTool {
			p.ToolChoice.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: c.Name}
		} else {
			p.ToolChoice.OfToolChoiceMode = sdk.Opt(responses.ToolChoiceOptions(c.Mode)) // the API has the same names
		}
	}
	switch f := o.ResponseFormat; {
	case f == nil:
	case f.Type == event.FormatJSON:
		p.Text.Format.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	case f.Type == event.FormatSchema:
		format := responses.ResponseFormatTextJSONSchemaConfigParam{Name: cmp.Or(f.Name, "response")}
		if err := jsonv2.Unmarshal(f.Schema, &format.Schema); err != nil {
			return apierr.Wrap(err, apierr.AgentError, "the schema of the response format is not a JSON object")
		}
		if f.Strict {
			format.Strict = sdk.Bool(true)
		}
		p.Text.Format.OfJSONSchema = &format
	}
	return nil
}

// responsesItems translates one of our messages, which may become none or several items.
func responsesItems(model string, m backend.Message) ([]responses.ResponseInputItemUnionParam, error) {
	switch m.Role {
	case backend.User:
		var content responses.ResponseInputMessageContentListParam
		for _, part := range m.Parts {
			switch part := part.(type) {
			case backend.Text:
				content = append(content, responses.ResponseInputContentParamOfInputText(part.Text))
			case backend.Media:
				content = append(content, responsesMedia(part.Input))
			}
		}
		return []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser)}, nil
	case backend.Assistant:
		return saidItems(model, m.Parts), nil
	case backend.Tool:
		return resultItems(m.Parts), nil
	default:
		return nil, apierr.New(apierr.AgentError, "the conversation has a message of the unknown role %q", m.Role)
	}
}

// saidItems returns what the model said, in its order. Reasoning of another model is left out.
func saidItems(model string, parts []backend.Part) []responses.ResponseInputItemUnionParam {
	var items []responses.ResponseInputItemUnionParam
	for _, part := range parts {
		switch part := part.(type) {
		case backend.Thinking:
			n, own := read(part.Signature, responsesAPI, model)
			if !own || n.Encrypted == "" {
				continue
			}
			summary := []responses.ResponseReasoningItemSummaryParam{}
			if part.Text != "" && part.Text != hidden {
				summary = append(summary, responses.ResponseReasoningItemSummaryParam{Text: part.Text})
			}
			item := responses.ResponseInputItemParamOfReasoning(n.ID, summary)
			item.OfReasoning.EncryptedContent = sdk.String(n.Encrypted)
			items = append(items, item)
		case backend.Text:
			item := responses.ResponseInputItemParamOfMessage(part.Text, responses.EasyInputMessageRoleAssistant)
			if n, own := read(part.Signature, responsesAPI, model); own {
				item.OfMessage.Phase = responses.EasyInputMessagePhase(n.Phase)
			}
			items = append(items, item)
		case backend.Call:
			args := "{}"
			if len(part.Args) > 0 {
				args = string(part.Args)
			}
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(args, part.ID, part.Name))
		}
	}
	return items
}

// resultItems answers the calls of a turn. The user shows the images and files of all of them afterwards.
func resultItems(parts []backend.Part) []responses.ResponseInputItemUnionParam {
	var items []responses.ResponseInputItemUnionParam
	var shown responses.ResponseInputMessageContentListParam
	for _, part := range parts {
		r, ok := part.(backend.Result)
		if !ok {
			continue
		}
		output := responses.ResponseInputItemParamOfFunctionCallOutput(cmp.Or(r.Content, string(r.Status)))
		output.OfFunctionCallOutput.CallID = sdk.String(r.ID)
		items = append(items, output)
		if len(r.Media) > 0 {
			shown = append(shown, responses.ResponseInputContentParamOfInputText(
				fmt.Sprintf("[attachments of %s to the result of call %s]", r.Name, r.ID)))
		}
		for _, in := range r.Media {
			shown = append(shown, responsesMedia(in))
		}
	}
	if len(shown) > 0 {
		items = append(items, responses.ResponseInputItemParamOfMessage(shown, responses.EasyInputMessageRoleUser))
	}
	return items
}

// responsesMedia converts an image or file to a type that the API accepts: images, PDF, and the content of a text. Other types
// are described in words.
func responsesMedia(in event.InputPart) responses.ResponseInputContentUnionParam {
	url := in.URL
	if len(in.Data) > 0 {
		url = fmt.Sprintf("data:%s;base64,%s", in.MediaType, base64.StdEncoding.EncodeToString(in.Data))
	}
	switch {
	case in.Type == event.ContentText:
		return responses.ResponseInputContentParamOfInputText(in.Text)
	case in.Type == media.Image && url != "":
		image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
		image.OfInputImage.ImageURL = sdk.String(url)
		return image
	case len(in.Data) > 0 && in.MediaType == media.PDF:
		return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
			FileData: sdk.String(url), Filename: sdk.String(cmp.Or(in.Name, "file.pdf")),
		}}
	case len(in.Data) > 0 && media.Type(in.Data) == media.Text:
		return responses.ResponseInputContentParamOfInputText(media.Describe(in) + ":\n" + string(in.Data))
	default:
		return responses.ResponseInputContentParamOfInputText(media.Unseen(in))
	}
}
