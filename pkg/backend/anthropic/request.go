package anthropic

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
	sdk "github.com/anthropics/anthropic-sdk-go"
	jsonv2 "github.com/go-json-experiment/json"
)

const (
	defaultMaxTokens = 8192 // the API wants a number
	minThinking      = 1024 // the smallest budget that the API takes
)

// callPrefix is how the provider's ids of tool calls begin.
const callPrefix = "toolu_"

// redacted marks, within a Signature, thinking that the provider encrypts and requires back.
const redacted = "redacted:"

// query is a request that is being built, and what is known of the model.
type query struct {
	params   sdk.MessageNewParams
	traits   traits
	plain    bool // thinking of earlier turns is left out
	unbound  bool // the server does not accept block_binding
	bound    bool // the request has block_binding
	warnings []string
	ids      map[string]string // the provider's id of each call that it made, by ours
}

func (q *query) warn(format string, args ...any) {
	q.warnings = append(q.warnings, fmt.Sprintf(format, args...))
}

// build translates a turn. An error is final.
func (q *query) build(turn backend.Turn, caching bool) error {
	p := &q.params
	p.Model, p.MaxTokens = turn.Model, int64(cmp.Or(max(0, turn.MaxTokens), defaultMaxTokens))
	if turn.UserID != "" {
		p.Metadata.UserID = sdk.String(upstream.User(turn.UserID))
	}
	q.think(turn)
	if err := q.setOptions(turn); err != nil {
		return err
	}
	if turn.System != "" {
		p.System = []sdk.TextBlockParam{{Text: turn.System}}
	}
	for _, m := range withoutRefused(turn.Messages) {
		blocks, err := q.blocks(m)
		if err != nil {
			return err
		}
		p.Messages = say(p.Messages, m.Role, blocks)
	}
	for _, spec := range turn.Tools {
		t, err := toolParam(spec)
		if err != nil {
			return err
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &t})
	}
	if caching {
		q.cache()
	}
	return nil
}

// withoutRefused leaves out the turns that the model refused to answer, from the user's message on: the model would refuse
// every later turn too.
func withoutRefused(messages []backend.Message) []backend.Message {
	var kept []backend.Message
	for _, m := range messages {
		if !m.Refused {
			kept = append(kept, m)
			continue
		}
		for len(kept) > 0 && kept[len(kept)-1].Role != backend.User {
			kept = kept[:len(kept)-1]
		}
		for len(kept) > 0 && kept[len(kept)-1].Role == backend.User {
			kept = kept[:len(kept)-1]
		}
	}
	return kept
}

// cache marks what the provider caches: the tools, the instructions, and the conversation up to its last two messages that
// are not the model's. The one before last is where the previous turn ended, so the next turn finds it however many blocks a
// turn has. The API takes four marks.
func (q *query) cache() {
	p, mark := &q.params, sdk.NewCacheControlEphemeralParam()
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = mark
	}
	left := 2
	for _, m := range slices.Backward(p.Messages) {
		if m.Role != sdk.MessageParamRoleUser || left == 0 {
			continue
		}
		if control := m.Content[len(m.Content)-1].GetCacheControl(); control != nil {
			*control = mark
			left--
		}
	}
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

func (q *query) blocks(m backend.Message) ([]sdk.ContentBlockParamUnion, error) {
	if m.Role != backend.User && m.Role != backend.Assistant && m.Role != backend.Tool {
		return nil, apierr.New(apierr.AgentError, "the conversation has a message of the unknown role %q", m.Role)
	}
	var all []sdk.ContentBlockParamUnion
	for _, part := range m.Parts {
		if block, ok := q.translate(part); ok {
			all = append(all, block)
		}
	}
	return all, nil
}

// translate makes a block of a part; ok is false for what the API does not take, such as empty text. A call keeps the id that
// the provider gave it, as thinking may be bound to everything before it.
func (q *query) translate(part backend.Part) (block sdk.ContentBlockParamUnion, ok bool) {
	switch part := part.(type) {
	case backend.Text:
		return sdk.NewTextBlock(part.Text), strings.TrimSpace(part.Text) != ""
	case backend.Thinking:
		if data, hidden := strings.CutPrefix(part.Signature, redacted); hidden {
			return sdk.NewRedactedThinkingBlock(data), !q.plain
		}
		return sdk.NewThinkingBlock(part.Signature, part.Text), own(part.Signature) && !q.plain
	case backend.Call:
		args := part.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		if strings.HasPrefix(part.Signature, callPrefix) {
			if q.ids == nil {
				q.ids = map[string]string{}
			}
			q.ids[part.ID] = part.Signature
		}
		return sdk.NewToolUseBlock(q.callID(part.ID), args, part.Name), true
	case backend.Result:
		return result(q.callID(part.ID), part), true
	case backend.Media:
		return show(part.Input), true
	default:
		return block, false
	}
}

// callID returns the provider's id of a call, or ours if another provider made it.
func (q *query) callID(id string) string { return cmp.Or(q.ids[id], id) }

// own reports whether a signature is this provider's. Those of other backends are JSON.
func own(signature string) bool { return signature != "" && signature[0] != '{' }

func result(id string, r backend.Result) sdk.ContentBlockParamUnion {
	block := sdk.NewToolResultBlock(id, cmp.Or(r.Content, string(r.Status)), r.Status != event.ToolSuccess)
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
