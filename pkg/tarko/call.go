package tarko

import (
	"cmp"
	"fmt"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// call follows a call while the model writes it.
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

// endArguments ends a call's arguments, and keeps what the log says of the tool: it says so once.
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
		c.args = jsontext.Value("{}")
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

// toolInfo is what the log says of a tool.
func (r *run) toolInfo(name string) ToolInfo {
	info := r.tools[name]
	info.Name = name
	if len(info.Schema) == 0 {
		info.Schema = jsontext.Value(`{"type":"object"}`)
	}
	return info
}

// result follows a call while it runs. A result that was given up is followed by another, or by a question.
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

// toolResult is the end of a call. Its content is what the model read of it: Tarko's frontends show that, where native
// clients get the summary alone (S2, tool_result). One that is too large for an event is told by its summary and hash.
func (r *run) toolResult(b event.ToolResult) ToolResult {
	output, read := r.outputs[b.ToolCallID]
	delete(r.outputs, b.ToolCallID)
	told := ToolResult{ToolCallID: b.ToolCallID, Name: b.Tool, ElapsedMs: b.ElapsedMS}
	text := b.Summary
	if read && output.Ref == nil {
		text = output.Content
	}
	told.Content = anyJSON(text)
	if len(b.Media) > 0 && text != "" {
		told.ProcessedContent = TextContent(text)
	}
	told.ProcessedContent = append(told.ProcessedContent, contentOf(b.Media, r.session)...)
	var extra ToolExtra
	if b.Status != event.ToolSuccess {
		told.Error = cmp.Or(b.Summary, text, string(b.Status))
		extra.Status = string(b.Status)
	}
	if output.Ref != nil {
		extra.Size, extra.SHA256 = output.Ref.Size, output.Ref.SHA256
	}
	if extra != (ToolExtra{}) {
		told.Extra = &extra
	}
	return told
}

// anyJSON is text as JSON: an object or array as it is, anything else as a string.
func anyJSON(text string) jsontext.Value {
	v := jsontext.Value(text)
	if (v.Kind() == jsontext.KindBeginObject || v.Kind() == jsontext.KindBeginArray) && v.IsValid() {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, text) // fails for invalid UTF-8 alone, and replaces that
	return quoted
}

// report follows a final answer, which has a messageId of its own. It is what the model said, so the turn's message has it
// too: many frontends show messages and no reports. As a whole it is told with that message, for until the turn ends it may
// be given up.
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

// addReports tells the final answers of a turn, or that those of a turn which was cut short end here.
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

// action tells what the client must do: once for frontends that know how, once for people who read it in any other.
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

// actionText is what a continuation asks for, for people.
func actionText(b event.Continuation) string {
	name := b.Payload.Tool
	switch {
	case b.Kind == event.ContinueInput && b.Payload.Question != "":
		return "The agent asks: " + b.Payload.Question
	case b.Kind == event.ContinueInput:
		return "The agent waits for your answer."
	case b.Kind == event.ContinueTool:
		return fmt.Sprintf("The agent waits for the client to run %s.", name)
	case b.Payload.Again:
		return fmt.Sprintf("Nobody knows whether %s has happened. The agent waits for your approval to run it again.", name)
	default:
		return fmt.Sprintf("The agent waits for your approval to run %s.", name)
	}
}
