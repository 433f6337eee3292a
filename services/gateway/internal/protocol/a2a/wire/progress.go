package wire

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// The kinds of what a message of the agent is about: the member "kind" of its metadata.
const (
	kindThinking   = "thinking"
	kindToolCall   = "tool_call"
	kindToolResult = "tool_result"
	kindPlan       = "plan"
	kindNotice     = "notice"
	kindCustom     = "custom"
	kindText       = "text" // of an agent that was called
)

// progress projects an event that adds nothing to the output of the task: a message of a status update. It shows whole blocks, since a message is not
// streamed. agentID is an agent that was called; "" = the agent of the task.
func (f *Fold) progress(at time.Time, body event.Body, agentID string) []Update {
	switch b := body.(type) {
	case event.Subagent:
		return f.subagent(b)
	case event.UsageSoFar:
		return f.report(f.working(at), map[string]any{"usage": b.Usage, "turns": b.Turns})
	case event.ContextCompressed:
		return f.report(f.working(at), map[string]any{string(b.Name()): b})
	}
	kind, part, about := progressOf(body)
	if kind == "" {
		return nil
	}
	if about == nil {
		about = map[string]any{}
	}
	about["kind"] = kind
	if agentID != "" {
		about["agent"] = agentID
	}
	s := f.working(at)
	f.said++
	s.Message = f.say(kind+"-"+strconv.Itoa(f.said), part)
	s.Message.Metadata = own(about)
	return f.report(s, nil)
}

// working is the status of progress. It is that of the task, with another time.
func (f *Fold) working(at time.Time) Status {
	return Status{State: f.status.State, Timestamp: timestamp(at)}
}

// subagent projects an event of an agent that was called.
func (f *Fold) subagent(b event.Subagent) []Update {
	inner, err := event.Decode(b.Inner)
	if err != nil || inner.Body.Name().IsInternal() {
		return nil
	}
	return f.progress(inner.Time, inner.Body, b.AgentID)
}

// progressOf returns the kind of a whole block of progress, the part that shows it, and what is in its metadata; "" = it is not
// shown.
func progressOf(body event.Body) (kind string, part Part, about map[string]any) {
	switch b := body.(type) {
	case event.Thinking:
		if isWhole(b.Block) && b.Thinking != "" {
			return kindThinking, textPart(b.Thinking), nil
		}
	case event.Text: // of an agent that was called
		if isWhole(b.Block) && b.Text != "" {
			return kindText, textPart(b.Text), nil
		}
	case event.ToolCall:
		if isWhole(b.Block) {
			return kindToolCall, dataPart(toolCall{b.ToolCallID, b.Tool, b.Args}), nil
		}
	case event.ToolResult:
		if isWhole(b.Block) {
			return kindToolResult, dataPart(toolResult{b.ToolCallID, b.Tool, b.Status, b.Summary, b.ElapsedMS}), nil
		}
	case event.Plan:
		return kindPlan, dataPart(plan{b.Steps, b.Summary, b.Stage == event.StageStop}), nil
	case event.Notice:
		return kindNotice, textPart(b.Message), map[string]any{"level": b.Level}
	case event.Custom:
		data := b.Data
		if len(data) == 0 {
			data = json.RawMessage("{}")
		}
		return kindCustom, dataPart(data), map[string]any{"type": b.Type}
	}
	return "", Part{}, nil
}

func isWhole(b event.Block) bool { return b.Stage == event.StageStop && !b.Discarded }

type toolCall struct {
	ID   string          `json:"toolCallId"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"arguments,omitzero"`
}

type toolResult struct {
	ID        string           `json:"toolCallId"`
	Tool      string           `json:"tool,omitempty"`
	Status    event.ToolStatus `json:"status"`
	Summary   string           `json:"summary,omitempty"`
	ElapsedMS int64            `json:"elapsedMs,omitzero"`
}

type plan struct {
	Steps    []event.PlanStep `json:"steps,omitempty"`
	Summary  string           `json:"summary,omitempty"`
	Finished bool             `json:"finished"`
}

// finalAnswer is the metadata of the artifact of a final answer.
func finalAnswer(b event.FinalAnswer) json.RawMessage {
	about := map[string]any{"finalAnswer": true}
	for name, value := range map[string]string{"format": b.Format, "kind": b.Kind} {
		if value != "" {
			about[name] = value
		}
	}
	return own(about)
}

// The answers to actions, as JSON Schema.
const (
	approvalSchema = `{"type":"object","properties":{"actionId":{"type":"string"},"approved":{"type":"boolean"},"reason":{"type":"string"}},` +
		`"required":["actionId","approved"]}`
	inputSchema = `{"type":"object","properties":{"actionId":{"type":"string"},"answer":{"type":"string"}},"required":["actionId","answer"]}`
	toolSchema  = `{"type":"object","properties":{"actionId":{"type":"string"},"result":{},"error":{"type":"string"}},"required":["actionId"]}`
)

// question describes an action that the task waits for.
type question struct {
	ActionID  string                 `json:"actionId"`
	Kind      event.ContinuationKind `json:"kind"`
	Question  string                 `json:"question,omitempty"`
	Tool      string                 `json:"tool,omitempty"`
	Args      json.RawMessage        `json:"arguments,omitzero"`
	Again     bool                   `json:"again,omitzero"`
	Agent     string                 `json:"agent,omitempty"`
	ExpiresAt string                 `json:"expiresAt,omitempty"`
	Schema    json.RawMessage        `json:"responseSchema"`
}

// questions returns the parts of the message by which a task asks for its actions: for each a text, and what a program needs.
func (f *Fold) questions() []Part {
	parts := make([]Part, 0, 2*len(f.waiting))
	for _, c := range f.waiting {
		q := question{
			ActionID: c.ActionID, Kind: c.Kind, Question: c.Payload.Question, Tool: c.Payload.Tool, Args: c.Payload.Args,
			Again: c.Payload.Again, ExpiresAt: timestamp(c.ExpiresAt),
		}
		if c.Payload.Agent != nil {
			q.Agent = c.Payload.Agent.AgentID
		}
		text := cmp.Or(c.Payload.Question, "The task waits for an answer.")
		switch c.Kind {
		case event.ContinueApproval:
			q.Schema = json.RawMessage(approvalSchema)
			text = cmp.Or(c.Payload.Question, "Allow "+c.Payload.Tool+"?") + ` Answer "approve" or "deny".`
		case event.ContinueInput:
			q.Schema = json.RawMessage(inputSchema)
		case event.ContinueTool:
			q.Schema = json.RawMessage(toolSchema)
			text = "Run " + c.Payload.Tool + ", and send its result."
		}
		parts = append(parts, textPart(text), dataPart(q))
	}
	if len(parts) == 0 {
		return []Part{textPart("The task waits for an answer.")}
	}
	return parts
}
