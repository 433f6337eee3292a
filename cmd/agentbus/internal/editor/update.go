package editor

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// maxPrinted bounds the live output of a tool that an update repeats, in bytes.
const maxPrinted = 8 << 10

// ending is how a request has ended.
type ending struct {
	reason acp.StopReason
	open   []event.Continuation
	failed error
}

// updates shows the events of a request as updates.
type updates struct {
	session *session
	whole   bool // the events have no deltas that matter: whole blocks are shown at their stops

	ending
	calls   map[string]bool   // tool calls that were shown, true until they have ended
	printed map[string]string // what running tools have printed
}

// show sends an event to the editor.
func (u *updates) show(body event.Body) error {
	switch b := body.(type) {
	case event.Input:
		return u.input(b)
	case event.Text:
		return u.block(acp.UpdateAgentMessage, b.Block, b.Delta, b.Text)
	case event.FinalAnswer:
		return u.block(acp.UpdateAgentMessage, b.Block, b.Delta, b.Content)
	case event.Thinking:
		return u.block(acp.UpdateAgentThought, b.Block, b.Delta, b.Thinking)
	case event.ToolCall:
		return u.toolCall(b)
	case event.ToolResult:
		return u.toolResult(b)
	case event.Subagent:
		return u.subagent(b)
	case event.Plan:
		return u.plan(b)
	case event.Notice:
		return u.session.say(severity(b.Level), b.Message)
	case event.Continuation:
		u.open = append(u.open, b)
		return nil
	default:
		return u.end(body)
	}
}

// end notes the terminal event.
func (u *updates) end(body event.Body) error {
	switch b := body.(type) {
	case event.Done:
		u.reason = stopReason(b.FinishReason)
		if b.FinishReason == event.FinishActionRequired {
			return nil // calls wait for the user
		}
		u.open = nil
	case event.Error:
		u.open = nil
		f := apierr.New(b.Code, "%s", b.Message)
		f.Retryable = b.Retryable
		u.failed = f
	case event.Aborted:
		u.open, u.reason = nil, acp.StopCancelled
	default:
		return nil // an event of a later version, or one that editors do not show
	}
	return u.endCalls()
}

// endCalls ends the calls without an end: an editor would show them as running.
func (u *updates) endCalls() error {
	for callID, runs := range u.calls {
		if !runs {
			continue
		}
		u.calls[callID] = false
		if err := u.progress(acp.ToolCall{ToolCallID: callID, Status: acp.ToolFailed}); err != nil {
			return err
		}
	}
	return nil
}

func stopReason(finish event.FinishReason) acp.StopReason {
	switch finish {
	case event.FinishLength:
		return acp.StopMaxTokens
	case event.FinishMaxTurns, event.FinishBudget:
		return acp.StopMaxTurnRequests
	case event.FinishContentFilter:
		return acp.StopRefusal
	default:
		return acp.StopEndTurn
	}
}

func severity(level string) string {
	switch level {
	case "warning", "error":
		return level
	default:
		return "info"
	}
}

// input shows what a user said, in a session that is loaded.
func (u *updates) input(in event.Input) error {
	for _, m := range in.Messages {
		for _, c := range userContent(m.Content) {
			content, err := jsonv2.Marshal(c)
			if err != nil {
				return fmt.Errorf("encode a message: %w", err)
			}
			update := acp.Update{SessionUpdate: acp.UpdateUserMessage, MessageID: m.ID, ToolCall: acp.ToolCall{Content: content}}
			if err := u.session.update(update); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *updates) block(kind string, b event.Block, delta, whole string) error {
	switch {
	case u.whole && b.Stage == event.StageStop && !b.Discarded:
		return u.session.chunk(kind, b.BlockID, whole)
	case u.whole:
		return nil
	case b.Discarded: // the protocol cannot take a text back
		return u.session.chunk(kind, b.BlockID, "\n[interrupted, and begun again]\n")
	default:
		return u.session.chunk(kind, b.BlockID, delta)
	}
}

func (u *updates) toolCall(c event.ToolCall) error {
	switch c.Stage {
	case event.StageStart:
		return u.announce(c.ToolCallID, c.Tool, nil)
	case event.StageStop:
		if c.Discarded {
			return u.finish(acp.ToolCall{ToolCallID: c.ToolCallID, Status: acp.ToolFailed})
		}
		if err := u.announce(c.ToolCallID, c.Tool, c.Args); err != nil {
			return err
		}
		status := acp.ToolInProgress
		if c.Gate != "" {
			status = acp.ToolPending
		}
		return u.progress(acp.ToolCall{ToolCallID: c.ToolCallID, Status: status, RawInput: c.Args})
	default:
		return nil
	}
}

// announce shows a tool call that was not shown before.
func (u *updates) announce(callID, tool string, args json.RawMessage) error {
	if _, shown := u.calls[callID]; shown {
		return nil
	}
	if u.calls == nil {
		u.calls, u.printed = map[string]bool{}, map[string]string{}
	}
	u.calls[callID] = true
	return u.session.update(acp.Update{SessionUpdate: acp.UpdateToolCall, ToolCall: acp.ToolCall{
		ToolCallID: callID, Title: tool, Name: tool, Kind: kindOf(tool), Status: acp.ToolPending, RawInput: args,
	}})
}

// finish ends a tool call that was shown.
func (u *updates) finish(c acp.ToolCall) error {
	if u.calls[c.ToolCallID] {
		u.calls[c.ToolCallID] = false
		return u.progress(c)
	}
	return nil
}

func (u *updates) progress(c acp.ToolCall) error {
	return u.session.update(acp.Update{SessionUpdate: acp.UpdateToolProgress, ToolCall: c})
}

func (u *updates) toolResult(r event.ToolResult) error {
	if err := u.announce(r.ToolCallID, r.Tool, nil); err != nil { // of a call that an earlier request has made
		return err
	}
	switch {
	case r.Stage == event.StageDelta && !u.whole:
		return u.print(r.ToolCallID, r.Delta)
	case r.Stage != event.StageStop || r.Discarded:
		return nil
	}
	status := acp.ToolCompleted
	if r.Status != "" && r.Status != event.ToolSuccess {
		status = acp.ToolFailed
	}
	blocks := []acp.Content{}
	if r.Summary != "" {
		blocks = append(blocks, acp.TextContent(r.Summary))
	}
	content, err := toolContent(append(blocks, userContent(r.Media)...))
	if err != nil {
		return err
	}
	output, err := jsonv2.Marshal(map[string]any{"status": r.Status, "summary": r.Summary}, jsonv2.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	return u.finish(acp.ToolCall{ToolCallID: r.ToolCallID, Status: status, Content: content, RawOutput: output})
}

// print shows what a tool prints while it runs. Each update replaces the one before, so it has the end of all output.
func (u *updates) print(callID, text string) error {
	if text == "" || !u.calls[callID] {
		return nil
	}
	printed := u.printed[callID] + text
	printed = strings.ToValidUTF8(printed[max(0, len(printed)-maxPrinted):], "")
	u.printed[callID] = printed
	content, err := toolContent([]acp.Content{acp.TextContent(printed)})
	if err != nil {
		return err
	}
	return u.progress(acp.ToolCall{ToolCallID: callID, Status: acp.ToolInProgress, Content: content})
}

// subagent shows what an agent writes that this one has called, as the output of the call.
func (u *updates) subagent(s event.Subagent) error {
	inner, err := event.Decode(s.Inner)
	if err != nil {
		return nil //nolint:nilerr // an event of a later version; the call has its own result
	}
	switch b := inner.Body.(type) {
	case event.Text:
		return u.print(s.ToolCallID, b.Delta)
	case event.ToolCall:
		if b.Stage == event.StageStop {
			return u.print(s.ToolCallID, "\n["+b.Tool+" "+string(b.Args)+"]\n")
		}
	}
	return nil
}

func toolContent(blocks []acp.Content) (json.RawMessage, error) {
	parts := make([]acp.ToolContent, 0, len(blocks))
	for _, b := range blocks {
		parts = append(parts, acp.ToolContent{Type: "content", Content: &b})
	}
	content, err := jsonv2.Marshal(parts)
	if err != nil {
		return nil, fmt.Errorf("encode the output of a tool: %w", err)
	}
	return content, nil
}

func (u *updates) plan(p event.Plan) error {
	if p.Stage == event.StageStop {
		return nil
	}
	entries := make([]acp.PlanEntry, 0, len(p.Steps))
	next := acp.ToolInProgress
	for _, step := range p.Steps {
		entry := acp.PlanEntry{Content: step.Content, Priority: "medium", Status: acp.ToolCompleted}
		if !step.Done {
			entry.Status, next = next, acp.ToolPending
		}
		entries = append(entries, entry)
	}
	return u.session.update(acp.Update{SessionUpdate: acp.UpdatePlan, Entries: entries})
}

// kindOf guesses from the name of a tool what kind of tool it is, which editors show as an icon.
func kindOf(tool string) string {
	_, name, found := strings.Cut(tool, "__") // server__tool
	if !found {
		name = tool
	}
	kinds := []struct{ kind, words string }{
		{acp.KindRead, "read get list view"}, {acp.KindEdit, "write edit patch create"}, {acp.KindDelete, "delete remove"},
		{acp.KindMove, "move rename"}, {acp.KindSearch, "search find grep"}, {acp.KindExecute, "run bash shell exec"},
		{acp.KindFetch, "http fetch web"}, {acp.KindThink, "think"},
	}
	first, _, _ := strings.Cut(strings.ToLower(name), "_")
	for _, k := range kinds {
		for word := range strings.FieldsSeq(k.words) {
			if first == word {
				return k.kind
			}
		}
	}
	return acp.KindOther
}
