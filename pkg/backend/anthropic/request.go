package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/tool"
	sdk "github.com/anthropics/anthropic-sdk-go"
	jsonv2 "github.com/go-json-experiment/json"
)

const (
	defaultMaxTokens = 8192 // the API wants a number
	minThinking      = 1024 // the smallest budget that the API takes
)

// redacted marks, within a Signature, thinking that the provider encrypts and requires back.
const redacted = "redacted:"

// params translates a turn. An error is a final fault.
func (b *Backend) params(turn backend.Turn) (p sdk.MessageNewParams, warning string, err error) {
	p = sdk.MessageNewParams{Model: turn.Model, MaxTokens: int64(turn.MaxTokens)}
	if turn.MaxTokens <= 0 {
		p.MaxTokens = defaultMaxTokens
	}
	if turn.Thinking > 0 {
		warning = think(&p, turn)
	}
	if err := setOptions(&p, turn); err != nil {
		return p, "", err
	}
	if turn.System != "" {
		p.System = []sdk.TextBlockParam{{Text: turn.System}}
	}
	for _, m := range turn.Messages {
		blocks, err := blocks(m)
		if err != nil {
			return p, "", err
		}
		p.Messages = say(p.Messages, m.Role, blocks)
	}
	for _, spec := range turn.Tools {
		t, err := toolParam(spec)
		if err != nil {
			return p, "", err
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &t})
	}
	return p, warning, nil
}

// think turns thinking on, in addition to the tokens of the answer. With tool results, the API requires the thinking
// before the calls; if another model made the calls, that is missing and thinking stays off for this turn.
func think(p *sdk.MessageNewParams, turn backend.Turn) (warning string) {
	if !thoughtBeforeCalls(turn.Messages) {
		return "thinking is off for this turn: the thinking before its tool calls is not this provider's"
	}
	budget := int64(max(turn.Thinking, minThinking))
	p.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
	p.MaxTokens += budget
	return ""
}

// thoughtBeforeCalls reports whether what the assistant said since the user spoke, if anything, begins with thinking that
// the provider signed.
func thoughtBeforeCalls(messages []backend.Message) bool {
	for i, m := range slices.Backward(messages) {
		if m.Role != backend.User {
			continue
		}
		said := slices.IndexFunc(messages[i:], func(m backend.Message) bool { return m.Role == backend.Assistant })
		return said < 0 || beginsSigned(messages[i+said].Parts)
	}
	return true
}

func beginsSigned(parts []backend.Part) bool {
	if len(parts) == 0 {
		return false
	}
	thinking, ok := parts[0].(backend.Thinking)
	return ok && thinking.Signature != ""
}

// say adds blocks to the conversation. Consecutive blocks of one role form one message: the API requires the results of
// one turn's calls in one message, before the next message of the user.
func say(messages []sdk.MessageParam, role backend.Role, blocks []sdk.ContentBlockParamUnion) []sdk.MessageParam {
	if len(blocks) == 0 {
		return messages
	}
	m := sdk.NewUserMessage(blocks...)
	if role == backend.Assistant {
		m = sdk.NewAssistantMessage(blocks...)
	}
	if last := len(messages) - 1; last >= 0 && messages[last].Role == m.Role {
		messages[last].Content = append(messages[last].Content, m.Content...)
		return messages
	}
	return append(messages, m)
}

func blocks(m backend.Message) ([]sdk.ContentBlockParamUnion, error) {
	if m.Role != backend.User && m.Role != backend.Assistant && m.Role != backend.Tool {
		return nil, apierr.New(apierr.AgentError, "the conversation has a message of the unknown role %q", m.Role)
	}
	var all []sdk.ContentBlockParamUnion
	for _, part := range m.Parts {
		if block, ok := translate(part); ok {
			all = append(all, block)
		}
	}
	return all, nil
}

// translate makes a block of a part; ok is false for what the API does not take, such as empty text.
func translate(part backend.Part) (block sdk.ContentBlockParamUnion, ok bool) {
	switch part := part.(type) {
	case backend.Text:
		return sdk.NewTextBlock(part.Text), strings.TrimSpace(part.Text) != ""
	case backend.Thinking:
		if data, hidden := strings.CutPrefix(part.Signature, redacted); hidden {
			return sdk.NewRedactedThinkingBlock(data), true
		}
		return sdk.NewThinkingBlock(part.Signature, part.Text), part.Signature != ""
	case backend.Call:
		args := part.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		return sdk.NewToolUseBlock(part.ID, args, part.Name), true
	case backend.Result:
		return result(part), true
	case backend.Media:
		return show(part.Input), true
	default:
		return block, false
	}
}

func result(r backend.Result) sdk.ContentBlockParamUnion {
	block := sdk.NewToolResultBlock(r.ID, cmp.Or(r.Content, string(r.Status)), r.Status != event.ToolSuccess)
	for _, in := range r.Media {
		shown := show(in)
		block.OfToolResult.Content = append(block.OfToolResult.Content, sdk.ToolResultBlockParamContentUnion{
			OfText: shown.OfText, OfImage: shown.OfImage, OfDocument: shown.OfDocument,
		})
	}
	return block
}

// show converts an image or file to a type that the API accepts: images, PDF and text. Other types are described in
// words.
func show(in event.InputPart) sdk.ContentBlockParamUnion {
	data := base64.StdEncoding.EncodeToString(in.Data)
	inline := len(in.Data) > 0
	switch {
	case in.Type == event.ContentText:
		return sdk.NewTextBlock(in.Text)
	case in.Type == media.Image && inline:
		return sdk.NewImageBlockBase64(in.MediaType, data)
	case in.Type == media.Image && in.URL != "":
		return sdk.NewImageBlock(sdk.URLImageSourceParam{URL: in.URL})
	case inline && in.MediaType == media.PDF:
		return titled(sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: data}), in.Name)
	case inline && media.Type(in.Data) == media.Text:
		return titled(sdk.NewDocumentBlock(sdk.PlainTextSourceParam{Data: string(in.Data)}), in.Name)
	case in.URL != "" && (in.MediaType == "" || in.MediaType == media.PDF):
		return titled(sdk.NewDocumentBlock(sdk.URLPDFSourceParam{URL: in.URL}), in.Name)
	default:
		return sdk.NewTextBlock(media.Unseen(in))
	}
}

func titled(document sdk.ContentBlockParamUnion, name string) sdk.ContentBlockParamUnion {
	if name != "" {
		document.OfDocument.Title = sdk.String(name)
	}
	return document
}

func toolParam(spec tool.Spec) (sdk.ToolParam, error) {
	t := sdk.ToolParam{Name: spec.Name}
	if spec.Description != "" {
		t.Description = sdk.String(spec.Description)
	}
	schema := map[string]any{}
	if len(spec.Schema) > 0 {
		if err := jsonv2.Unmarshal(spec.Schema, &schema); err != nil {
			return t, apierr.Wrap(err, apierr.AgentError, "the schema of tool %s is not a JSON object; correct its description", spec.Name)
		}
	}
	delete(schema, "type") // the SDK writes "object" by itself
	if schema["properties"] == nil {
		schema["properties"] = map[string]any{} // the API wants a schema of every tool
	}
	t.InputSchema.ExtraFields = schema
	return t, nil
}
