package tarko

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// call projects the stages of a tool call of the model.
func (p *Projector) call(b event.ToolCall) {
	m := &p.run.message
	switch {
	case b.Stage == event.StageStart:
		c := block{kind: event.NameToolCall, callID: b.ToolCallID, tool: b.Tool}
		p.startBlock(b.BlockID, c)
		p.addArguments(c, "", false)
	case b.Stage == event.StageDelta && m.open:
		if open := m.find(b.BlockID); open != nil {
			p.addArguments(*open, b.Delta, false)
		}
	case b.Stage == event.StageStop && b.Discarded:
		p.discard(b.BlockID)
	case b.Stage == event.StageStop:
		p.endArguments(b)
	}
}

// endArguments ends the arguments of a call. It keeps the tool's description and schema, which the log contains once.
func (p *Projector) endArguments(b event.ToolCall) {
	r := &p.run
	if b.Description != "" || len(b.Schema) > 0 {
		r.tools[b.Tool] = ToolInfo{Name: b.Tool, Description: b.Description, Schema: b.Schema}
	}
	c := r.message.find(b.BlockID)
	if c == nil {
		return
	}
	c.tool, c.args, c.endedAt = cmp.Or(b.Tool, c.tool), b.Args, p.event.Time
	if len(c.args) == 0 {
		c.args = json.RawMessage("{}")
	}
	if r.message.open {
		p.addArguments(*c, "", true)
	}
}

func (p *Projector) addArguments(c block, args string, complete bool) {
	p.add(AssistantStreamingToolCall{
		ToolCallID: c.callID, ToolName: c.tool, Arguments: args, IsComplete: complete, MessageID: p.run.message.id,
	})
}

// toolInfo returns what the log contains about a tool.
func (r *run) toolInfo(name string) ToolInfo {
	info := r.tools[name]
	info.Name = name
	if len(info.Schema) == 0 {
		info.Schema = json.RawMessage(`{"type":"object"}`)
	}
	return info
}

// result projects the run of a call. After a discarded result comes another one, or an action.
func (p *Projector) result(b event.ToolResult) {
	switch {
	case b.Stage == event.StageStart:
		p.add(ToolExecutionStart{ToolCallID: b.ToolCallID, Name: b.Tool})
	case b.Stage == event.StageDelta:
		p.add(ToolExecutionDelta{ToolCallID: b.ToolCallID, Delta: b.Delta})
	case b.Stage == event.StageStop && !b.Discarded:
		p.add(p.run.toolResult(b))
		p.run.turnStart = p.event.Time
	}
}

// toolResult returns the end of a call. Its content is the output for the model, because Tarko's frontends show it;
// native clients get only the summary. If the output is too large for an event, its content is the summary, and Extra
// has the hash.
func (r *run) toolResult(b event.ToolResult) ToolResult {
	output, read := r.outputs[b.ToolCallID]
	delete(r.outputs, b.ToolCallID)
	result := ToolResult{ToolCallID: b.ToolCallID, Name: b.Tool, ElapsedMs: b.ElapsedMS}
	text := b.Summary
	if read && output.Ref == nil {
		text = output.Content
	}
	result.Content, result.ProcessedContent = resultContent(text, contentOf(b.Media, r.session))
	var extra ToolExtra
	if b.Status != event.ToolSuccess {
		result.Error = cmp.Or(b.Summary, text, string(b.Status))
		extra.Status = string(b.Status)
	}
	if output.Ref != nil {
		extra.Size, extra.SHA256 = output.Ref.Size, output.Ref.SHA256
	}
	if extra != (ToolExtra{}) {
		result.Extra = &extra
	}
	return result
}

// resultContent returns the content of a result. A result with images or files has its parts as its content, because
// Tarko's frontends show the images of a content and do not read processedContent; processedContent has the same parts.
func resultContent(text string, media Content) (content json.RawMessage, processed []Part) {
	if len(media) == 0 {
		return anyJSON(text), nil
	}
	if text != "" {
		processed = TextContent(text)
	}
	processed = append(processed, media...)
	content, err := jsonv2.Marshal(processed, marshalOptions)
	if err != nil {
		return anyJSON(text), processed // not reached: ids and texts of a log are valid UTF-8
	}
	return content, processed
}

// anyJSON returns text as JSON: an object or array unchanged, anything else as a string.
func anyJSON(text string) json.RawMessage {
	v := json.RawMessage(text)
	if (jsontext.Value(v).Kind() == jsontext.KindBeginObject || jsontext.Value(v).Kind() == jsontext.KindBeginArray) && jsontext.Value(v).IsValid() {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, text) // fails only for invalid UTF-8, which it replaces
	return quoted
}

// report projects a final answer, which has a separate messageId. Its text is also part of the turn's message, because
// many frontends show messages and no reports. The complete report is sent with that message, since it may be discarded
// until the turn ends.
func (p *Projector) report(b event.FinalAnswer) {
	id := p.run.id + "-" + b.BlockID
	whole := &FinalAnswer{IsDeepResearch: b.Kind == event.ReportResearch, Title: b.Title, Format: b.Format, MessageID: id}
	if open := p.run.message.find(b.BlockID); open != nil && open.report != nil {
		whole.IsDeepResearch = whole.IsDeepResearch || open.report.IsDeepResearch
	}
	part := FinalAnswerStreaming{Content: b.Delta, IsDeepResearch: whole.IsDeepResearch, MessageID: id}
	if b.Stage == event.StageDelta && b.Delta != "" {
		p.add(part)
	}
	if b.Stage == event.StageStop && b.Discarded {
		part.IsComplete = true
		p.add(part)
	}
	p.textBlock(b.Block, block{kind: event.NameText, text: b.Content, report: whole}, b.Delta)
}

// addReports adds the final answers of a turn or, if the turn was cut short, the ends of their increments.
func (p *Projector) addReports(cut bool) {
	for _, b := range p.run.message.blocks {
		if b.report == nil {
			continue
		}
		if cut {
			p.add(FinalAnswerStreaming{
				IsDeepResearch: b.report.IsDeepResearch, IsComplete: true, MessageID: b.report.MessageID,
			})
			continue
		}
		b.report.Content = b.text
		p.add(*b.report)
	}
}

// action adds an action twice: as data for frontends that support it, and as text for all others.
func (p *Projector) action(b event.Continuation) {
	asked := ActionRequired{
		ActionID: b.ActionID, Kind: string(b.Kind), ToolCallID: b.Payload.ToolCallID, Name: b.Payload.Tool,
		Arguments: b.Payload.Args, ArgsHash: b.Payload.ArgsHash, Question: b.Payload.Question, Again: b.Payload.Again,
	}
	if !b.ExpiresAt.IsZero() {
		asked.ExpiresAt = b.ExpiresAt.UnixMilli()
	}
	p.add(asked)
	details, _ := jsontext.AppendQuote([]byte(`{"actionId":`), b.ActionID) // an id is plain text
	p.add(System{Level: LevelInfo, Message: actionText(b), Details: append(details, '}')})
}

// typedApproval says how to decide an approval in a frontend without buttons for it; see docs/tarko.md.
const typedApproval = "Type yes to allow it, or no to refuse it."

// decisionText describes the result of an action for people, "" for one that a program gave.
func decisionText(a event.ActionResult) string {
	var text string
	switch {
	case a.Status == event.ActionDenied:
		return "You refused what the agent asked for."
	case a.Status == event.ActionError:
		return "What the agent asked for failed."
	case len(a.Result) == 0 || jsontext.Value(a.Result).Kind() == jsontext.KindNull:
		return "You allowed what the agent asked for."
	case jsonv2.Unmarshal(a.Result, &text) == nil:
		return "You answered: " + text
	default:
		return "" // data of a client's tool
	}
}

// actionText describes an action for people.
func actionText(b event.Continuation) string {
	name := b.Payload.Tool
	switch {
	case b.Kind == event.ContinueInput && b.Payload.Question != "":
		return "The agent asks: " + b.Payload.Prompt() + "\nType your answer."
	case b.Kind == event.ContinueInput:
		return "The agent waits for your answer. Type it."
	case b.Kind == event.ContinueTool:
		return fmt.Sprintf("The agent waits for the client to run %s.", name)
	case b.Payload.Again:
		return fmt.Sprintf("It is unknown whether %s has happened. The agent waits for your approval to run it again. "+typedApproval, name)
	default:
		return fmt.Sprintf("The agent waits for your approval to run %s. "+typedApproval, name)
	}
}
