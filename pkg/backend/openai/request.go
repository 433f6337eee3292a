package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
)

// params translates a turn. An error is a final fault.
func (b *Backend) params(turn backend.Turn) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:           turn.Model,
		StreamOptions:   sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
		ReasoningEffort: effort(turn),
	}
	switch {
	case turn.MaxTokens <= 0:
	case b.openai:
		p.MaxCompletionTokens = sdk.Int(int64(turn.MaxTokens))
	default:
		p.MaxTokens = sdk.Int(int64(turn.MaxTokens)) // all servers support the older name
	}
	if b.api.Own { // compatible servers refuse members that they lack
		p.SafetyIdentifier, p.PromptCacheKey = identify(turn)
	}
	if err := setOptions(&p, turn); err != nil {
		return p, err
	}
	if turn.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(turn.System))
	}
	c := b.conversation(turn)
	for i, m := range turn.Messages {
		messages, err := c.messages(i, m)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, messages...)
	}
	for _, spec := range turn.Tools {
		f, err := function(spec)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	return p, nil
}

// identify returns the names under which OpenAI learns of the user and of the conversation, whose prompts it caches together.
func identify(turn backend.Turn) (user, thread param.Opt[string]) {
	if turn.UserID != "" {
		user = sdk.String(upstream.User(turn.UserID))
	}
	if turn.ThreadID != "" {
		thread = sdk.String(turn.ThreadID)
	}
	return user, thread
}

// conversation is what the translation of a message depends on.
type conversation struct {
	model   string
	returns ReturnThinking
	from    int  // the first message whose thinking goes back
	google  bool // calls need the provider's signature
}

func (b *Backend) conversation(turn backend.Turn) conversation {
	c := conversation{model: turn.Model, returns: cmp.Or(b.returns, returnsOf(turn.Model)), google: b.google}
	calls := slices.ContainsFunc(turn.Messages, func(m backend.Message) bool { return m.Role == backend.Tool })
	switch {
	case b.openai || !calls:
		c.returns = ReturnNever
	case c.returns == ReturnTurn:
		for i, m := range turn.Messages {
			if m.Role == backend.User {
				c.from = i
			}
		}
	}
	return c
}

// messages translates one of ours, which may become none or several of theirs.
func (c *conversation) messages(i int, m backend.Message) ([]sdk.ChatCompletionMessageParamUnion, error) {
	switch m.Role {
	case backend.User:
		return []sdk.ChatCompletionMessageParamUnion{userMessage(m.Parts)}, nil
	case backend.Assistant:
		own := c.assistantMessage(m.Parts)
		if own == nil {
			return nil, nil
		}
		if i >= c.from {
			c.returnThinking(own, m.Parts)
		}
		return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: own}}, nil
	case backend.Tool:
		return toolMessages(m.Parts), nil
	default:
		return nil, apierr.New(apierr.AgentError, "the conversation has a message of the unknown role %q", m.Role)
	}
}

func userMessage(parts []backend.Part) sdk.ChatCompletionMessageParamUnion {
	if text, ok := onlyText(parts); ok {
		return sdk.UserMessage(text)
	}
	var content []sdk.ChatCompletionContentPartUnionParam
	for _, part := range parts {
		switch part := part.(type) {
		case backend.Text:
			content = append(content, sdk.TextContentPart(part.Text))
		case backend.Media:
			content = append(content, show(part.Input))
		}
	}
	return sdk.UserMessage(content)
}

// onlyText joins parts that are all text, which every server understands as a plain string.
func onlyText(parts []backend.Part) (string, bool) {
	lines := make([]string, 0, len(parts))
	for _, part := range parts {
		text, ok := part.(backend.Text)
		if !ok {
			return "", false
		}
		lines = append(lines, text.Text)
	}
	return strings.Join(lines, "\n"), true
}

// show converts an image or file to a type that the API accepts: images, PDF, and the content of a text. Other types
// are described in words.
func show(in event.InputPart) sdk.ChatCompletionContentPartUnionParam {
	url := in.URL
	if len(in.Data) > 0 {
		url = fmt.Sprintf("data:%s;base64,%s", in.MediaType, base64.StdEncoding.EncodeToString(in.Data))
	}
	switch {
	case in.Type == event.ContentText:
		return sdk.TextContentPart(in.Text)
	case in.Type == media.Image && url != "":
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url})
	case len(in.Data) > 0 && in.MediaType == media.PDF:
		return sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
			FileData: sdk.String(url), Filename: sdk.String(cmp.Or(in.Name, "file.pdf")),
		})
	case len(in.Data) > 0 && media.Type(in.Data) == media.Text:
		return sdk.TextContentPart(media.Describe(in) + ":\n" + string(in.Data))
	default:
		return sdk.TextContentPart(media.Unseen(in))
	}
}

// assistantMessage returns the text and the calls of a turn, nil without any.
func (c *conversation) assistantMessage(parts []backend.Part) *sdk.ChatCompletionAssistantMessageParam {
	var m sdk.ChatCompletionAssistantMessageParam
	var text strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case backend.Text:
			text.WriteString(part.Text)
		case backend.Call:
			m.ToolCalls = append(m.ToolCalls, c.call(part, len(m.ToolCalls) == 0))
		}
	}
	if text.Len() == 0 && len(m.ToolCalls) == 0 {
		return nil
	}
	if text.Len() > 0 {
		m.Content.OfString = sdk.String(text.String())
	}
	return &m
}

// unsigned is what Google's server takes in place of the signature of a call that another model made.
const unsigned = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

// call translates a call. Google's server wants the signature back that came with the first call of a turn.
func (c *conversation) call(part backend.Call, first bool) sdk.ChatCompletionMessageToolCallUnionParam {
	call := sdk.ChatCompletionMessageFunctionToolCallParam{ID: part.ID}
	call.Function.Name = part.Name
	call.Function.Arguments = "{}"
	if len(part.Args) > 0 {
		call.Function.Arguments = string(part.Args)
	}
	n, own := read(part.Signature, chatAPI, c.model)
	switch {
	case own && len(n.Extra) > 0:
		call.SetExtraFields(map[string]any{"extra_content": n.Extra})
	case c.google && first:
		call.SetExtraFields(map[string]any{"extra_content": json.RawMessage(unsigned)})
	}
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &call}
}

// toolMessages answers the calls of a turn. Results are text in this API, so the user shows the images and files of all
// of them afterwards.
func toolMessages(parts []backend.Part) []sdk.ChatCompletionMessageParamUnion {
	var all []sdk.ChatCompletionMessageParamUnion
	var shown []sdk.ChatCompletionContentPartUnionParam
	for _, part := range parts {
		r, ok := part.(backend.Result)
		if !ok {
			continue
		}
		all = append(all, sdk.ToolMessage(cmp.Or(r.Content, string(r.Status)), r.ID))
		if len(r.Media) > 0 {
			shown = append(shown, sdk.TextContentPart(fmt.Sprintf("[attachments of %s to the result of call %s]", r.Name, r.ID)))
		}
		for _, in := range r.Media {
			shown = append(shown, show(in))
		}
	}
	if len(shown) > 0 {
		all = append(all, sdk.UserMessage(shown))
	}
	return all
}

func function(spec tool.Spec) (shared.FunctionDefinitionParam, error) {
	f := shared.FunctionDefinitionParam{Name: spec.Name}
	if spec.Description != "" {
		f.Description = sdk.String(spec.Description)
	}
	if len(spec.Schema) == 0 {
		return f, nil
	}
	if err := jsonv2.Unmarshal(spec.Schema, &f.Parameters); err != nil {
		return f, apierr.Wrap(err, apierr.AgentError, "the schema of tool %s is not a JSON object; correct its description", spec.Name)
	}
	return f, nil
}
