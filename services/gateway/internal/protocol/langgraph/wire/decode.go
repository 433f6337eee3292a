package wire

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a body.
const (
	maxDepth    = 64
	maxMessages = 2000
	maxBlocks   = 100
	maxCalls    = 128
)

// Input is the body of a run. Unknown members are ignored, as are those that only change how a server of LangGraph stores or
// traces its state.
type Input struct {
	AssistantID       string          `json:"assistant_id"`
	Input             json.RawMessage `json:"input"`
	Command           *command        `json:"command"`
	Config            runConfig       `json:"config"`
	Context           json.RawMessage `json:"context"`
	Metadata          json.RawMessage `json:"metadata"`
	StreamMode        modeList        `json:"stream_mode"`
	StreamResumable   bool            `json:"stream_resumable"`
	MultitaskStrategy string          `json:"multitask_strategy"`
	OnDisconnect      string          `json:"on_disconnect"`
	IfNotExists       string          `json:"if_not_exists"`
	Checkpoint        *Checkpoint     `json:"checkpoint"`
	CheckpointID      string          `json:"checkpoint_id"`

	// What is not supported, and refused instead of ignored.
	Webhook         json.RawMessage `json:"webhook"`
	AfterSeconds    json.RawMessage `json:"after_seconds"`
	InterruptBefore json.RawMessage `json:"interrupt_before"`
	InterruptAfter  json.RawMessage `json:"interrupt_after"`
}

// Checkpoint names a state of a thread: the one at the end of a run.
type Checkpoint struct {
	ThreadID      string          `json:"thread_id"`
	CheckpointNS  string          `json:"checkpoint_ns"`
	CheckpointID  string          `json:"checkpoint_id"` // the id of the run
	CheckpointMap json.RawMessage `json:"checkpoint_map"`
}

type runConfig struct {
	Configurable json.RawMessage `json:"configurable"`
}

// command answers what the thread waits for.
type command struct {
	Resume json.RawMessage `json:"resume"`
	Update json.RawMessage `json:"update"`
	Goto   json.RawMessage `json:"goto"`
}

const example = `{"assistant_id":"demo","input":{"messages":[{"role":"user","content":"hi"}]}}`

// Decode reads the body of a request into v. Its error is an apierr.InvalidMessageFormat that names the wrong member.
func Decode(body []byte, v any) error {
	if jsontext.Value(body).Kind() != jsontext.KindBeginObject {
		return invalid("the body must be a JSON object such as %s", example)
	}
	if codec.NestedDeeper(body, maxDepth) {
		return invalid("the body is nested more than %d levels deep", maxDepth)
	}
	if err := jsonv2.Unmarshal(body, v); err != nil {
		return codec.Explain(err)
	}
	return nil
}

// DecodeInput reads the body of a run.
func DecodeInput(body []byte) (in Input, err error) {
	if err := Decode(body, &in); err != nil {
		return in, err
	}
	return in, in.check()
}

func (in Input) check() error {
	for name, value := range map[string]json.RawMessage{
		"webhook": in.Webhook, "after_seconds": in.AfterSeconds, "interrupt_before": in.InterruptBefore, "interrupt_after": in.InterruptAfter,
	} {
		if !isNull(value) && string(value) != "[]" {
			return invalid("%s is not supported; leave it out", name)
		}
	}
	if in.AssistantID == "" {
		return invalid("assistant_id is missing; assistants are agents: POST /langgraph/assistants/search lists them")
	}
	if _, err := ParseModes(in.StreamMode); err != nil {
		return err
	}
	if c := in.Command; c != nil && (!isNull(c.Update) || !isNull(c.Goto)) {
		return invalid("command.update and command.goto are not supported; use command.resume")
	}
	switch in.OnDisconnect {
	case "", "cancel", "continue":
	default:
		return invalid("on_disconnect is %.40q; use \"cancel\" or \"continue\"", in.OnDisconnect)
	}
	switch in.IfNotExists {
	case "", "create", "reject":
		return nil
	default:
		return invalid("if_not_exists is %.40q; use \"create\" or \"reject\"", in.IfNotExists)
	}
}

// Resumes returns the answer to what the thread waits for; nil = the run brings none.
func (in Input) Resumes() json.RawMessage {
	if in.Command == nil || isNull(in.Command.Resume) {
		return nil
	}
	return in.Command.Resume
}

// At returns the checkpoint from which the run starts; "" = the newest one.
func (in Input) At() string {
	if in.Checkpoint != nil {
		return in.Checkpoint.CheckpointID
	}
	return in.CheckpointID
}

// Request is what an input asks for.
type Request struct {
	Request      event.AgentRequest
	Conversation []event.HistoryMessage // nil = only messages of the user
	System       string
	Metadata     json.RawMessage
}

// Request translates the input, without the answers of its command.
func (in Input) Request() (r Request, err error) {
	messages, rest, err := in.messages()
	if err != nil {
		return r, err
	}
	r.Request.Messages = []event.InputMessage{}
	whole := false
	for _, m := range messages {
		whole = whole || m.Role == event.RoleAssistant || m.Role == event.RoleTool
	}
	for _, m := range messages {
		switch {
		case whole:
		case m.Role == event.RoleSystem:
			r.System += m.Content.Text() + "\n"
		default:
			r.Request.Messages = append(r.Request.Messages, event.InputMessage{ID: m.ID, Role: m.Role, Content: m.Content})
		}
	}
	if whole {
		r.Conversation, r.Request.Messages = messages, nil
	}
	r.Request.Context.Extra = event.NewMembers(in.extra(rest))
	r.Metadata = encode(metadata{Stored{Modes: in.StreamMode, Metadata: object(in.Metadata)}})
	return r, nil
}

// extra returns the context of the request, which templates read: {context.configurable.…}, {context.runtime.…} and
// {context.input.…}.
func (in Input) extra(rest map[string]json.RawMessage) json.RawMessage {
	members := map[string]json.RawMessage{}
	if len(rest) > 0 {
		members["input"] = encode(rest)
	}
	for name, value := range map[string]json.RawMessage{"configurable": in.Config.Configurable, "runtime": in.Context} {
		if !isNull(value) && string(value) != "{}" {
			members[name] = value
		}
	}
	if len(members) == 0 {
		return nil
	}
	return encode(members)
}

// inMessage is a message that a client sends: in LangChain's format, or with a role.
type inMessage struct {
	Type       string          `json:"type"`
	Role       string          `json:"role"`
	ID         string          `json:"id"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Status     string          `json:"status"`
}

// lists stops at the first entry too many, before a small body becomes a large one in memory.
var lists = jsonv2.JoinUnmarshalers(
	codec.AtMost[json.RawMessage](maxMessages, ""), codec.AtMost[ToolCall](maxCalls, ""), codec.AtMost[inBlock](maxBlocks, ""),
)

// messages returns the messages of the input, and its other members.
func (in Input) messages() ([]event.HistoryMessage, map[string]json.RawMessage, error) {
	if isNull(in.Input) {
		return nil, nil, nil
	}
	var members map[string]json.RawMessage
	if err := jsonv2.Unmarshal(in.Input, &members); err != nil {
		return nil, nil, invalid("input must be an object such as %s", `{"messages":[{"role":"user","content":"hi"}]}`)
	}
	value := members["messages"]
	delete(members, "messages")
	var entries []json.RawMessage
	switch jsontext.Value(value).Kind() {
	case jsontext.KindInvalid, jsontext.KindNull:
		return nil, members, nil
	case jsontext.KindBeginArray:
		if err := jsonv2.Unmarshal(value, &entries, jsonv2.WithUnmarshalers(lists)); err != nil {
			return nil, nil, codec.Explain(err)
		}
	default:
		entries = []json.RawMessage{value}
	}
	all := make([]event.HistoryMessage, 0, len(entries))
	for i, entry := range entries {
		one, err := decodeMessage("input.messages["+strconv.Itoa(i)+"]", entry)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, one)
	}
	return all, members, nil
}

// decodeMessage reads a message: an object, or the text of the user.
func decodeMessage(where string, entry json.RawMessage) (one event.HistoryMessage, err error) {
	var m inMessage
	switch jsontext.Value(entry).Kind() {
	case jsontext.KindString:
		m.Role, m.Content = event.RoleUser, entry
	case jsontext.KindBeginObject:
		if err := jsonv2.Unmarshal(entry, &m, jsonv2.WithUnmarshalers(lists)); err != nil {
			return one, invalid("%s is not a message: %v", where, codec.Explain(err))
		}
	default:
		return one, invalid("%s must be a message such as {\"role\":\"user\",\"content\":\"hi\"}", where)
	}
	if one.Role, err = roleOf(where, m); err != nil {
		return one, err
	}
	if m.ID != "" && id.Valid(m.ID) {
		one.ID = m.ID
	}
	if one.Content, err = contentParts(where+".content", m.Content); err != nil {
		return one, err
	}
	one.ToolCallID = m.ToolCallID
	if m.Status == "error" {
		one.Status = event.ToolFailed
	}
	for _, c := range m.ToolCalls {
		one.ToolCalls = append(one.ToolCalls, event.HistoryCall{ID: c.ID, Name: c.Name, Args: c.Args})
	}
	return one, nil
}

func roleOf(where string, m inMessage) (string, error) {
	name := m.Type
	if name == "" {
		name = m.Role
	}
	switch name {
	case "human", "user", "HumanMessage":
		return event.RoleUser, nil
	case "ai", "assistant", "AIMessage", typeAIChunk:
		return event.RoleAssistant, nil
	case "system", "developer", "SystemMessage":
		return event.RoleSystem, nil
	case "tool", "ToolMessage":
		return event.RoleTool, nil
	default:
		return "", invalid("%s has the type %.40q; use human, ai, system or tool", where, name)
	}
}

// inBlock is a block of content that a client sends.
type inBlock struct {
	Type       string          `json:"type"`
	Text       string          `json:"text"`
	ImageURL   json.RawMessage `json:"image_url"` // a URL, or an object with the member url
	SourceType string          `json:"source_type"`
	URL        string          `json:"url"`
	Data       string          `json:"data"` // base64
	Base64     string          `json:"base64"`
	MIMEType   string          `json:"mime_type"`
	MIMECamel  string          `json:"mimeType"`
	Metadata   struct {
		Filename string `json:"filename"`
		Name     string `json:"name"`
	} `json:"metadata"`
}

// contentParts reads the content of a message. The core checks its parts.
func contentParts(where string, value json.RawMessage) (event.InputContent, error) {
	switch jsontext.Value(value).Kind() {
	case jsontext.KindInvalid, jsontext.KindNull:
		return nil, nil
	case jsontext.KindString:
		var text string
		if err := jsonv2.Unmarshal(value, &text); err != nil {
			return nil, codec.Explain(err)
		}
		if text == "" {
			return nil, nil
		}
		return event.InputContent{{Type: event.ContentText, Text: text}}, nil
	default:
	}
	var blocks []inBlock
	if err := jsonv2.Unmarshal(value, &blocks, jsonv2.WithUnmarshalers(lists)); err != nil {
		return nil, invalid("%s must be a string or an array of at most %d content blocks", where, maxBlocks)
	}
	content := make(event.InputContent, 0, len(blocks))
	for i, b := range blocks {
		p, err := b.part(where + "[" + strconv.Itoa(i) + "]")
		if err != nil {
			return nil, err
		}
		content = append(content, p)
	}
	return content, nil
}

// part returns what the block is. A data URL becomes data when the core checks it.
func (b inBlock) part(where string) (event.InputPart, error) {
	one := event.InputPart{Type: media.File, URL: b.URL, Name: b.Metadata.Filename}
	if one.Name == "" {
		one.Name = b.Metadata.Name
	}
	switch b.Type {
	case "text":
		return event.InputPart{Type: event.ContentText, Text: b.Text}, nil
	case "image_url":
		address, ok := b.address()
		if !ok {
			return one, invalid("%s.image_url must be a URL", where)
		}
		return event.InputPart{Type: media.Image, URL: address}, nil
	case "image":
		one.Type = media.Image
	case "file", "audio", "video":
	default:
		return one, invalid("%s.type is %.40q; use text, image_url, image or file", where, b.Type)
	}
	data, mediaType := b.Data+b.Base64, b.MIMEType+b.MIMECamel
	switch {
	case one.URL == "" && data == "":
		return one, invalid("%s has neither url nor data", where)
	case data != "":
		one.URL = "data:" + mediaType + ";base64," + data
	}
	return one, nil
}

func (b inBlock) address() (address string, ok bool) {
	var object link
	if jsonv2.Unmarshal(b.ImageURL, &address) == nil {
		return address, true
	}
	ok = jsonv2.Unmarshal(b.ImageURL, &object) == nil && object.URL != ""
	return object.URL, ok
}

func isNull(v json.RawMessage) bool {
	kind := jsontext.Value(v).Kind()
	return kind == jsontext.KindInvalid || kind == jsontext.KindNull
}

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}

// Decode implements codec.Codec.
func (Codec) Decode(body []byte) (event.AgentRequest, error) {
	in, err := DecodeInput(body)
	if err != nil {
		return event.AgentRequest{}, err
	}
	r, err := in.Request()
	return r.Request, err
}

// EncodeError implements codec.Codec: the body has the member detail, as that of LangGraph's server.
func (Codec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	return "application/json", append(encode(struct {
		Detail string      `json:"detail"`
		Code   apierr.Code `json:"code"`
	}{cmp.Or(f.Message, string(f.Code)), f.Code}), '\n')
}
