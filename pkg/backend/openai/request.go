package openai

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// params translates a turn. An error is a final fault.
func (b *Backend) params(turn backend.Turn) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:           turn.Model,
		StreamOptions:   sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
		ReasoningEffort: effort(turn.Thinking),
	}
	switch {
	case turn.MaxTokens <= 0:
	case b.own:
		p.MaxCompletionTokens = sdk.Int(int64(turn.MaxTokens))
	default:
		p.MaxTokens = sdk.Int(int64(turn.MaxTokens)) // the older name is the one that every server knows
	}
	if turn.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(turn.System))
	}
	for _, m := range turn.Messages {
		messages, err := messages(m)
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

// effort turns a budget of tokens into the steps that the API has. Without a budget nothing is asked for, since models
// that do not reason refuse the question.
func effort(budget int) shared.ReasoningEffort {
	switch {
	case budget <= 0:
		return ""
	case budget <= 2048:
		return shared.ReasoningEffortLow
	case budget <= 8192:
		return shared.ReasoningEffortMedium
	default:
		return shared.ReasoningEffortHigh
	}
}

// messages translates one of ours, which may become none or several of theirs.
func messages(m backend.Message) ([]sdk.ChatCompletionMessageParamUnion, error) {
	switch m.Role {
	case backend.User:
		return userMessage(m.Parts)
	case backend.Assistant:
		return assistantMessage(m.Parts), nil
	case backend.Tool:
		return toolMessages(m.Parts), nil
	default:
		return nil, fault.New(fault.AgentError, "the conversation has a message of the unknown role %q", m.Role)
	}
}

func userMessage(parts []backend.Part) ([]sdk.ChatCompletionMessageParamUnion, error) {
	if text, ok := onlyText(parts); ok {
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(text)}, nil
	}
	var content []sdk.ChatCompletionContentPartUnionParam
	for _, part := range parts {
		switch part := part.(type) {
		case backend.Text:
			content = append(content, sdk.TextContentPart(part.Text))
		case backend.Media:
			c, err := media(part.Input)
			if err != nil {
				return nil, err
			}
			content = append(content, c)
		}
	}
	return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(content)}, nil
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

func media(in event.InputPart) (sdk.ChatCompletionContentPartUnionParam, error) {
	url := in.URL
	if len(in.Data) > 0 {
		url = fmt.Sprintf("data:%s;base64,%s", in.MediaType, base64.StdEncoding.EncodeToString(in.Data))
	}
	switch {
	case in.Type == "image":
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url}), nil
	case in.Type == "file" && len(in.Data) > 0:
		file := sdk.ChatCompletionContentPartFileFileParam{FileData: sdk.String(url), Filename: sdk.String("file")}
		if in.Name != "" {
			file.Filename = sdk.String(in.Name)
		}
		return sdk.FileContentPart(file), nil
	default:
		return sdk.ChatCompletionContentPartUnionParam{}, fault.New(fault.AgentError,
			"the model reads images, and files with inline data, but no %s by URL; send its content instead", in.Type)
	}
}

// assistantMessage leaves thinking out: the API has no place for it.
func assistantMessage(parts []backend.Part) []sdk.ChatCompletionMessageParamUnion {
	var m sdk.ChatCompletionAssistantMessageParam
	var text strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case backend.Text:
			text.WriteString(part.Text)
		case backend.Call:
			call := sdk.ChatCompletionMessageFunctionToolCallParam{ID: part.ID}
			call.Function.Name = part.Name
			call.Function.Arguments = "{}"
			if len(part.Args) > 0 {
				call.Function.Arguments = string(part.Args)
			}
			m.ToolCalls = append(m.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &call})
		}
	}
	if text.Len() == 0 && len(m.ToolCalls) == 0 {
		return nil
	}
	if text.Len() > 0 {
		m.Content.OfString = sdk.String(text.String())
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &m}}
}

func toolMessages(parts []backend.Part) []sdk.ChatCompletionMessageParamUnion {
	var all []sdk.ChatCompletionMessageParamUnion
	for _, part := range parts {
		r, ok := part.(backend.Result)
		if !ok {
			continue
		}
		content := r.Content
		if content == "" {
			content = string(r.Status)
		}
		all = append(all, sdk.ToolMessage(content, r.ID))
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
	if err := json.Unmarshal(spec.Schema, &f.Parameters); err != nil {
		return f, fault.Wrap(err, fault.AgentError, "the schema of tool %s is no JSON object; correct its description", spec.Name)
	}
	return f, nil
}
