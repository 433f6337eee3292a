package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// Claude decodes `claude -p --output-format stream-json`, with and without --include-partial-messages.
func Claude() Decoder {
	return newLines(&claude{tools: map[string]bool{}, denied: map[string]bool{}, blocks: map[int]*claudeBlock{}})
}

// claude holds what lines refer back to.
type claude struct {
	streamed string // the message whose content has come as stream events
	blocks   map[int]*claudeBlock
	usage    claudeUsage // of the message that is streamed
	stop     string      // why it stopped
	tools    map[string]bool
	denied   map[string]bool // calls that the program was not permitted to make
	stepped  bool            // the newest message was reported as a step
	said     bool            // the run has given a text
}

type claudeBlock struct {
	kind, id, name string
	args           strings.Builder
}

type claudeUsage struct {
	Input       int64 `json:"input_tokens"`
	Output      int64 `json:"output_tokens"`
	CacheRead   int64 `json:"cache_read_input_tokens"`
	CacheCreate int64 `json:"cache_creation_input_tokens"`
}

func (u claudeUsage) usage() event.Usage {
	return event.Usage{
		InputTokens: u.Input + u.CacheRead + u.CacheCreate, OutputTokens: u.Output, CachedInputTokens: u.CacheRead,
		CacheWriteTokens: u.CacheCreate,
	}
}

type claudeLine struct {
	Type    string          `json:"type"`
	Subtype string          `json:"subtype"`
	Session string          `json:"session_id"`
	Parent  string          `json:"parent_tool_use_id"` // the tool whose agent said it
	Call    string          `json:"tool_use_id"`        // of permission_denied, which precedes the call's result
	Model   string          `json:"model"`
	Message claudeMessage   `json:"message"`
	Event   claudeEvent     `json:"event"`
	IsError bool            `json:"is_error"`
	Stop    string          `json:"stop_reason"`
	Result  json.RawMessage `json:"result"`
	Errors  []string        `json:"errors"`
	ID      string          `json:"request_id"` // of control_request
	Request struct {
		Subtype string          `json:"subtype"`
		Tool    string          `json:"tool_name"`
		Input   json.RawMessage `json:"input"`
		Call    string          `json:"tool_use_id"`
	} `json:"request"`
	Cost   float64 `json:"total_cost_usd"`
	Models map[string]struct {
		Input       int64 `json:"inputTokens"`
		Output      int64 `json:"outputTokens"`
		Thinking    int64 `json:"thinkingTokens"`
		CacheRead   int64 `json:"cacheReadInputTokens"`
		CacheCreate int64 `json:"cacheCreationInputTokens"`
	} `json:"modelUsage"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a text, or parts
	Usage   claudeUsage     `json:"usage"`
}

// claudePart is a part of a message, or of the result of a tool.
type claudePart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		MediaType string `json:"media_type"`
	} `json:"source"`
}

func (c *claude) read(line json.RawMessage, out *output) error {
	var l claudeLine
	decode(line, &l)
	out.report.SessionID = cmp.Or(l.Session, out.report.SessionID)
	switch {
	case l.Type == "system" && l.Subtype == "init":
		out.report.Model = l.Model
	case l.Type == "system" && l.Subtype == "permission_denied":
		c.denied[l.Call] = true
	case l.Type == "control_request":
		c.request(l, out)
	case l.Type == "result":
		c.result(l, out)
	case l.Parent != "":
		c.nested(l, out)
	case l.Type == "stream_event":
		c.event(l.Event, out)
	case l.Type == "assistant":
		c.assistant(l.Message, out)
	case l.Type == "user":
		c.results(l.Message, out)
	}
	return nil
}

// request takes a request of the program to the host that runs it.
func (c *claude) request(l claudeLine, out *output) {
	r := Request{ID: l.ID}
	if args := object(l.Request.Input); l.Request.Subtype == "can_use_tool" && args != nil {
		r.CallID, r.Tool, r.Args = l.Request.Call, l.Request.Tool, args
	}
	out.requests = append(out.requests, r)
}

// nested emits the output of a tool's agent as the progress of that tool.
func (c *claude) nested(l claudeLine, out *output) {
	if l.Type != "assistant" || !c.tools[l.Parent] {
		return
	}
	for _, p := range parts(l.Message.Content) {
		switch p.Type {
		case "text":
			out.emit(backend.ToolProgress{ID: l.Parent, Delta: p.Text + "\n"})
		case "tool_use":
			out.emit(backend.ToolProgress{ID: l.Parent, Delta: "[" + p.Name + "]\n"})
		}
	}
}

// assistant takes a message, or a part of one, that is whole.
func (c *claude) assistant(m claudeMessage, out *output) {
	streamed := m.ID != "" && m.ID == c.streamed
	if !streamed {
		c.usage, c.stepped = m.Usage, false
		out.report.Model = cmp.Or(m.Model, out.report.Model)
	}
	for _, p := range parts(m.Content) {
		switch {
		case p.Type == "tool_use":
			c.start(p.ID, p.Name, object(p.Input), out)
		case streamed:
		case p.Type == "text":
			c.delta(p.Text, "", "", out)
		case p.Type == "thinking":
			c.delta("", p.Thinking, p.Signature, out)
		}
	}
}

func (c *claude) start(id, name string, args json.RawMessage, out *output) {
	if id == "" || c.tools[id] {
		return
	}
	c.tools[id] = true
	out.emit(backend.ToolStarted{ID: id, Name: name, Args: args})
}

// results takes the results of tools.
func (c *claude) results(m claudeMessage, out *output) {
	for _, p := range parts(m.Content) {
		if p.Type != "tool_result" || !c.tools[p.ToolUseID] {
			continue
		}
		c.step(out)
		delete(c.tools, p.ToolUseID)
		ended := backend.ToolEnded{ID: p.ToolUseID, Status: status(p.IsError)}
		if c.denied[p.ToolUseID] {
			ended.Status = event.ToolDenied
		}
		for _, part := range parts(p.Content) {
			if part.Type != "text" {
				part.Text = "[" + cmp.Or(part.Source.MediaType, part.Type) + "]"
			}
			ended.Content += part.Text
		}
		out.emit(ended)
	}
}

// step reports the end of a message that called tools, once.
func (c *claude) step(out *output) {
	if c.stepped {
		return
	}
	c.stepped = true
	out.emit(backend.Step{Usage: c.usage.usage(), Model: out.report.Model})
}

func (c *claude) result(l claudeLine, out *output) {
	r := &out.report
	r.Used, r.Total = event.Usage{CostUSD: l.Cost}, true
	for _, m := range l.Models {
		r.Used = r.Used.Add(event.Usage{
			InputTokens: m.Input + m.CacheRead + m.CacheCreate, OutputTokens: m.Output, CachedInputTokens: m.CacheRead,
			CacheWriteTokens: m.CacheCreate, ReasoningTokens: m.Thinking,
		})
	}
	var text string
	decode(l.Result, &text)
	r.Failure = ""
	switch {
	case l.Subtype == "error_max_turns":
		r.Finish = event.FinishMaxTurns
	case l.Subtype == "error_max_budget_usd":
		r.Finish = event.FinishBudget
	case l.IsError:
		r.Failure = cmp.Or(note(strings.Join(l.Errors, "; ")), note(text), l.Subtype)
		r.Missing = SaysMissing(r.Failure) && len(l.Errors) > 0
	case l.Stop == "max_tokens":
		r.Finish = event.FinishLength
	case l.Stop == "refusal":
		r.Finish = event.FinishRefusal
	default:
		r.Finish = event.FinishStop
	}
	if !c.said && text != "" && r.Failure == "" {
		c.said = true
		out.emit(backend.TextDelta(text))
	}
}

func (c *claude) end(*output) {}

// parts reads the content of a message, which may be a plain text.
func parts(content json.RawMessage) []claudePart {
	if jsontext.Value(content).Kind() == '"' {
		p := claudePart{Type: "text"}
		decode(content, &p.Text)
		return []claudePart{p}
	}
	var all []json.RawMessage
	decode(content, &all)
	known := make([]claudePart, len(all))
	for i, one := range all {
		decode(one, &known[i])
	}
	return known
}
