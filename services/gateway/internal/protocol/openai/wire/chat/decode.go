package chat

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

// Input is the body of POST /chat/completions.
type Input struct {
	Model         string            `json:"model"`
	Messages      []Message         `json:"messages"`
	Stream        bool              `json:"stream"`
	StreamOptions *streamOptions    `json:"stream_options"`
	Temperature   *float64          `json:"temperature"`
	TopP          *float64          `json:"top_p"`
	Stop          json.RawMessage   `json:"stop"`
	MaxTokens     int               `json:"max_tokens"`
	MaxCompletion int               `json:"max_completion_tokens"`
	Tools         []tool            `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	Format        *format           `json:"response_format"`
	Metadata      map[string]string `json:"metadata"`
	User          string            `json:"user"`

	// These members would change the response in a way that an agent cannot.
	N            int             `json:"n"`
	Logprobs     bool            `json:"logprobs"`
	Modalities   []string        `json:"modalities"`
	Functions    json.RawMessage `json:"functions"`
	FunctionCall json.RawMessage `json:"function_call"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is a message of the conversation.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type tool struct {
	Type     string        `json:"type"`
	Function wire.Function `json:"function"`
}

type format struct {
	Type   string `json:"type"`
	Schema *struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	} `json:"json_schema"`
}

const example = `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`

// lists stops at the first entry too many, before a small body becomes a large one in memory.
var lists = jsonv2.JoinUnmarshalers(
	codec.AtMost[Message](wire.MaxMessages, ""), codec.AtMost[ToolCall](wire.MaxCalls, ""), codec.AtMost[tool](wire.MaxTools, ""),
)

// DecodeInput decodes a body. Its error is a *apierr.Error with InvalidMessageFormat that names the wrong member.
func DecodeInput(body []byte) (Input, error) {
	var in Input
	if err := wire.Decode(body, &in, lists, example); err != nil {
		return in, err
	}
	return in, in.check()
}

func (in Input) check() error {
	switch {
	case in.Model == "":
		return wire.Invalid("model is missing; it is the name of an agent: GET /openai/v1/models lists them")
	case len(in.Messages) == 0:
		return wire.Invalid("messages is empty; send at least one message of the user")
	case in.N > 1:
		return wire.Invalid("n is %d; an agent gives one answer: leave n out", in.N)
	case in.Logprobs:
		return wire.Invalid("logprobs is not supported; leave it out")
	case slices.ContainsFunc(in.Modalities, func(m string) bool { return m != "text" }):
		return wire.Invalid("modalities has more than \"text\"; agents answer in text")
	case !wire.IsNull(in.Functions) || !wire.IsNull(in.FunctionCall):
		return wire.Invalid("functions and function_call are not supported; use tools and tool_choice")
	}
	return nil
}

// Request is what an input asks of the core.
type Request struct {
	AgentID      string
	Request      event.AgentRequest     // with messages only if the thread of a call continues
	Conversation []event.HistoryMessage // nil = the thread of a call continues
	System       string
}

// Request converts the input. If it ends with results of calls, the thread of these calls continues and has the
// conversation. Otherwise the conversation is that of the client.
func (in Input) Request() (Request, error) {
	agentID, model := wire.Model(in.Model)
	r := Request{AgentID: agentID, Request: event.AgentRequest{Tools: in.tools()}}
	r.Request.Context = event.Context{Model: model, Extra: wire.Context(in.Metadata, in.User)}
	var err error
	if r.Request.ThreadID, err = wire.ThreadID(in.Metadata); err != nil {
		return r, err
	}
	if r.Request.Options, err = in.options(); err != nil {
		return r, err
	}
	results, err := in.results()
	if err != nil {
		return r, err
	}
	if len(results) > 0 {
		return in.answers(r, results)
	}
	r.Conversation, err = in.conversation()
	return r, err
}

// tools returns the client's tools; nil = not declared.
func (in Input) tools() []event.RequestTool {
	var tools []event.RequestTool
	for _, t := range in.Tools {
		if one, ok := t.Function.RequestTool(); ok {
			tools = append(tools, one)
		}
	}
	return tools
}

func (in Input) options() (event.RequestOptions, error) {
	o := event.RequestOptions{Temperature: in.Temperature, TopP: in.TopP, MaxTokens: max(in.MaxCompletion, in.MaxTokens)}
	var err error
	if o.Stop, err = wire.StopList(in.Stop); err != nil {
		return o, err
	}
	for i, t := range in.Tools {
		if t.Type != "function" {
			return o, wire.Invalid("tools[%d].type is %.40q; use \"function\"", i, t.Type)
		}
	}
	if !wire.IsNull(in.ToolChoice) {
		if o.ToolChoice, err = choice(in.ToolChoice); err != nil {
			return o, err
		}
	}
	if in.Format == nil {
		return o, nil
	}
	o.ResponseFormat, err = in.Format.option()
	return o, err
}

// choice decodes tool_choice: a mode, or the name of a function.
func choice(v json.RawMessage) (*event.ToolChoice, error) {
	var mode string
	if jsonv2.Unmarshal(v, &mode) == nil {
		return &event.ToolChoice{Mode: event.ToolMode(mode)}, nil
	}
	var named tool
	if jsonv2.Unmarshal(v, &named) != nil || named.Function.Name == "" {
		return nil, wire.Invalid(`tool_choice must be "none", "auto", "required" or {"type":"function","function":{"name":"…"}}`)
	}
	return &event.ToolChoice{Mode: event.ChooseTool, Name: named.Function.Name}, nil
}

func (f format) option() (*event.ResponseFormat, error) {
	switch f.Type {
	case "text":
		return &event.ResponseFormat{Type: event.FormatText}, nil
	case "json_object":
		return &event.ResponseFormat{Type: event.FormatJSON}, nil
	case "json_schema":
		if f.Schema == nil {
			return nil, wire.Invalid("response_format.json_schema is missing")
		}
		return &event.ResponseFormat{Type: event.FormatSchema, Name: f.Schema.Name, Schema: f.Schema.Schema, Strict: f.Schema.Strict}, nil
	default:
		return nil, wire.Invalid("response_format.type is %.40q; use \"text\", \"json_object\" or \"json_schema\"", f.Type)
	}
}

// answer is the result of a call, and the call.
type answer struct {
	call   wire.CallID
	result event.ActionResult
}

// results returns the results after the last message of the assistant, of calls that this server made.
func (in Input) results() ([]answer, error) {
	var all []answer
	for i, m := range slices.Backward(in.Messages) {
		if m.Role == event.RoleAssistant {
			break
		}
		call, ours := wire.ParseCallID(m.ToolCallID)
		if m.Role != event.RoleTool || !ours {
			continue
		}
		where := "messages[" + strconv.Itoa(i) + "]"
		if !call.Valid() {
			return nil, wire.Invalid("%s.tool_call_id %.80q is not the id of a call of this server", where, m.ToolCallID)
		}
		where += ".content"
		content, err := wire.Content(where, m.Content)
		if err != nil {
			return nil, err
		}
		result, err := call.Result(where, content.Text())
		if err != nil {
			return nil, err
		}
		all = append(all, answer{call, result})
	}
	slices.Reverse(all)
	return all, nil
}

// answers completes a request that continues the thread of its results.
func (in Input) answers(r Request, results []answer) (Request, error) {
	threadID := results[0].call.ThreadID
	for _, a := range results {
		if a.call.ThreadID != threadID {
			return r, wire.Invalid("the messages of role \"tool\" answer calls of several threads; answer each in a request of its thread")
		}
		r.Request.Context.ActionResults = append(r.Request.Context.ActionResults, a.result)
	}
	r.Request.ThreadID = threadID
	r.Request.Messages = []event.InputMessage{}
	last := len(in.Messages) - 1
	for in.Messages[last].Role != event.RoleAssistant && last > 0 {
		last--
	}
	conversation, err := in.conversation()
	for _, m := range conversation {
		if m.Role == event.RoleSystem || m.Role == event.RoleDeveloper {
			r.System += m.Content.Text() + "\n"
		}
	}
	if err != nil {
		return r, err
	}
	added, err := Input{Messages: in.Messages[last:]}.conversation()
	if err != nil {
		return r, err
	}
	for _, m := range added {
		if m.Role != event.RoleUser {
			continue
		}
		content, err := codec.CheckContent("the content of a message after the results", m.Content)
		if err != nil {
			return r, err
		}
		r.Request.Messages = append(r.Request.Messages, event.InputMessage{Role: m.Role, Content: content})
	}
	return r, nil
}

// conversation returns the messages. Approvals and answers to questions are left out: no model has called these functions.
func (in Input) conversation() ([]event.HistoryMessage, error) {
	all := make([]event.HistoryMessage, 0, len(in.Messages))
	for i, m := range in.Messages {
		callID, kept := wire.HistoryID(m.ToolCallID)
		if !kept {
			continue
		}
		one, err := m.history("messages[" + strconv.Itoa(i) + "]")
		if err != nil {
			return nil, err
		}
		one.ToolCallID = callID
		if one.Role != event.RoleAssistant || len(one.Content) > 0 || len(one.ToolCalls) > 0 {
			all = append(all, one)
		}
	}
	return all, nil
}

func (m Message) history(where string) (event.HistoryMessage, error) {
	one := event.HistoryMessage{Role: m.Role}
	content, err := wire.Content(where+".content", m.Content)
	if err != nil {
		return one, err
	}
	one.Content = content
	for _, c := range m.ToolCalls {
		if name, ok := wire.HistoryID(c.ID); ok {
			one.ToolCalls = append(one.ToolCalls, event.HistoryCall{ID: name, Name: c.Function.Name, Args: wire.Arguments(c.Function.Arguments)})
		}
	}
	return one, nil
}
