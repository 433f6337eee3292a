package wire

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// OpenCode decodes `opencode run --format json`.
func OpenCode() Decoder { return newLines(&openCode{}) }

// openCode holds what lines refer back to.
type openCode struct {
	spoke string // the part that spoke last; "" = another chunk came since
}

type openCodeLine struct {
	Type    string       `json:"type"`
	Session string       `json:"sessionID"`
	Part    openCodePart `json:"part"`
	Error   struct {
		Name    string `json:"name"`
		Message string `json:"message"`
		Data    struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

type openCodePart struct {
	ID     string  `json:"id"`
	Text   string  `json:"text"`
	Tool   string  `json:"tool"`
	CallID string  `json:"callID"`
	Reason string  `json:"reason"`
	Cost   float64 `json:"cost"`
	State  struct {
		Status string          `json:"status"`
		Input  json.RawMessage `json:"input"`
		Output string          `json:"output"`
		Title  string          `json:"title"`
		Error  string          `json:"error"`
		Time   struct {
			Start int64 `json:"start"`
			End   int64 `json:"end"`
		} `json:"time"`
	} `json:"state"`
	Tokens struct {
		Input     int64 `json:"input"`
		Output    int64 `json:"output"`
		Reasoning int64 `json:"reasoning"`
		Cache     struct {
			Read  int64 `json:"read"`
			Write int64 `json:"write"`
		} `json:"cache"`
	} `json:"tokens"`
}

func (o *openCode) read(line json.RawMessage, out *output) error {
	var l openCodeLine
	decode(line, &l)
	r := &out.report
	r.SessionID = cmp.Or(l.Session, r.SessionID)
	switch l.Type {
	case "text":
		o.say(l.Part, out)
	case "reasoning":
		o.spoke = ""
		if l.Part.Text != "" {
			out.emit(backend.ThinkingDelta(l.Part.Text + "\n"))
		}
	case "tool_use":
		o.tool(l.Part, out)
	case "step_finish":
		o.step(l.Part, out)
	case "error":
		r.Failure = note(cmp.Or(l.Error.Data.Message, l.Error.Message, l.Error.Name, "it failed"))
		r.Missing = SaysMissing(r.Failure)
	}
	return nil
}

// say emits a text, which is complete. Consecutive texts are separate paragraphs.
func (o *openCode) say(p openCodePart, out *output) {
	if p.Text == "" {
		return
	}
	text := p.Text
	if o.spoke != "" {
		text = "\n\n" + text
	}
	o.spoke = cmp.Or(p.ID, "text")
	out.emit(backend.TextDelta(text))
}

// tool reports a tool. OpenCode prints it when it has ended, not earlier.
func (o *openCode) tool(p openCodePart, out *output) {
	if p.CallID == "" {
		return
	}
	o.spoke = ""
	s := p.State
	out.emit(
		backend.ToolStarted{ID: p.ID + p.CallID, Name: p.Tool, Args: object(s.Input)},
		backend.ToolEnded{
			ID: p.ID + p.CallID, Status: status(s.Status == "error"), Content: cmp.Or(s.Output, s.Error), Summary: note(s.Title),
			Elapsed: time.Duration(max(0, s.Time.End-s.Time.Start)) * time.Millisecond,
		})
}

func (o *openCode) step(p openCodePart, out *output) {
	t := p.Tokens
	usage := event.Usage{
		InputTokens: t.Input + t.Cache.Read + t.Cache.Write, CachedInputTokens: t.Cache.Read, CacheWriteTokens: t.Cache.Write,
		OutputTokens: t.Output + t.Reasoning, ReasoningTokens: t.Reasoning, CostUSD: p.Cost,
	}
	r := &out.report
	r.Used = r.Used.Add(usage)
	switch p.Reason {
	case "tool-calls":
		out.emit(backend.Step{Usage: usage, Model: r.Model})
	case "length":
		r.Finish = event.FinishLength
	case "content-filter":
		r.Finish = event.FinishContentFilter
	default:
		r.Finish = event.FinishStop
	}
}

func (o *openCode) end(*output) {}
