package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
)

// run turns the events of one log, in order and from the first one, into events of AG-UI. Deltas may be missing, as in what
// history returns: then a stop becomes the start, the content and the end.
type run struct {
	requestID string
	threadID  string
	runID     string
	begun     bool // RUN_STARTED is written
	top       *agent
	provider  string
	model     string
	plan      []event.PlanStep
	waiting   []event.Continuation
	answered  []string // actions that the client's tool messages answer
	// toolOutput reports whether the client may read the output of tools; nil = no.
	toolOutput func() bool

	at  int64 // of the event being projected, in milliseconds
	out []Event
}

// agent is the agent of the run, or one that it has called.
type agent struct {
	runID  string // subagentRunId; "" = the agent of the run
	parent *agent
	call   string // the call that made it
	name   string
	open   []entity
	below  []*agent // that have not ended
	ended  []string // run ids of those that have
}

// entity is a text, a reasoning message or a call whose end has not been written.
type entity struct {
	kind       event.Name
	id         string
	name       string // of a tool
	hasContent bool   // it has content
}

func newRun() *run { return &run{top: &agent{}} }

// project returns what an event becomes.
func (r *run) project(e event.Event) []Event {
	r.at, r.out = e.Time.UnixMilli(), nil
	if e.Body.Name().IsInternal() {
		return nil
	}
	switch e.Body.(type) {
	case event.Claim, event.Unknown:
		return nil
	}
	r.identify(e)
	if !r.begun {
		r.begun = true
		r.emit(r.top, r.started())
	}
	r.fold(r.top, e.Body)
	return r.out
}

// identify learns the ids of the run from an event.
func (r *run) identify(e event.Event) {
	r.requestID = cmp.Or(r.requestID, e.RequestID)
	switch b := e.Body.(type) {
	case event.Input:
		r.threadID = cmp.Or(r.threadID, b.ThreadID)
		if b.SteerID == "" {
			r.begin(b)
		}
	case event.Metadata:
		r.threadID = cmp.Or(r.threadID, b.ThreadID)
		r.provider, r.model = b.Provider, b.Model
	}
}

// begin learns what the client of the run has named.
func (r *run) begin(b event.Input) {
	about := readMetadata(b.Metadata)
	r.runID, r.answered = about.RunID, nil
	if len(b.Metadata) == 0 {
		return // a client of another protocol, which has no tool messages
	}
	for _, a := range b.ActionResults {
		if !slices.Contains(about.Resumed, a.ActionID) {
			r.answered = append(r.answered, a.ActionID)
		}
	}
}

func (r *run) started() Event {
	return Event{
		Type: RunStarted, Timestamp: r.at, ThreadID: cmp.Or(r.threadID, unknownThread), RunID: r.name(),
		ProtocolVersion: ProtocolVersion, Metadata: Metadata{"requestId": r.requestID},
	}
}

// unknownThread is the thread of a log that does not name one, which only an incomplete log does.
const unknownThread = "unknown"

// name returns the run's id.
func (r *run) name() string { return cmp.Or(r.runID, r.requestID) }

// emit adds an event of an agent.
func (r *run) emit(a *agent, e Event) {
	e.Timestamp = r.at
	switch e.Type {
	case RunStarted, RunFinished, RunError:
	case SubagentStarted, SubagentFinished, SubagentError:
	default:
		e.SubagentRunID = a.runID
	}
	r.out = append(r.out, e)
}

// fold projects an event of an agent.
func (r *run) fold(a *agent, body event.Body) {
	switch b := body.(type) {
	case event.Input:
		r.input(a, b)
	case event.Text:
		r.prose(a, b.Block, event.NameText, b.Delta, b.Text, nil)
	case event.FinalAnswer:
		r.prose(a, b.Block, event.NameText, b.Delta, b.Content, finalAnswer(b))
	case event.Thinking:
		r.thinking(a, b)
	case event.ToolCall:
		r.call(a, b)
	case event.ToolResult:
		r.result(a, b)
	case event.Continuation:
		if a == r.top {
			r.waiting = append(r.waiting, b)
		}
	case event.Subagent:
		r.subagent(a, b)
	case event.Done, event.Error, event.Aborted:
		r.end(a, body)
	default:
		r.other(a, body)
	}
}

// input shows what the user sent.
func (r *run) input(a *agent, b event.Input) {
	if a != r.top {
		return // what an agent asks another one is in the arguments of its call
	}
	for i, m := range b.History {
		r.emit(a, Event{Type: oldMessage, Messages: []Message{oldMessageOf(m, r.requestID+"-history-"+strconv.Itoa(i), b.ThreadID)}})
	}
	for i, m := range b.Messages {
		messageID := cmp.Or(m.ID, cmp.Or(b.SteerID, r.requestID+"-user")+"-"+strconv.Itoa(i))
		one := Event{Type: userMessage, MessageID: messageID, Role: roleUser, Content: contentOf(m.Content, b.ThreadID)}
		if b.SteerID == "" {
			r.emit(a, one)
			continue
		}
		for _, part := range userText(one) {
			r.emit(a, part)
		}
	}
}

// These are not events of AG-UI: they are messages that the client of the run has sent with it.
const (
	userMessage = "user"    // that started the run
	oldMessage  = "history" // of the conversation before it
)

// userText returns the events of a message of the user. They have its text: AG-UI streams no media.
func userText(e Event) []Event {
	var text string
	var parts []Part
	if jsonv2.Unmarshal(e.Content, &text) != nil && jsonv2.Unmarshal(e.Content, &parts) == nil {
		for _, p := range parts {
			text = strings.TrimPrefix(text+"\n"+p.Text, "\n")
		}
	}
	events := []Event{{Type: TextStart, MessageID: e.MessageID, Role: roleUser}}
	if text != "" {
		events = append(events, Event{Type: TextContent, MessageID: e.MessageID, Delta: text})
	}
	return append(events, Event{Type: TextEnd, MessageID: e.MessageID})
}

// blockID returns the id of the message that a block becomes.
func blockID(b event.Block) string { return b.MessageID + "-" + b.BlockID }

// prose projects a block of text.
func (r *run) prose(a *agent, b event.Block, kind event.Name, delta, whole string, about Metadata) {
	id := blockID(b)
	r.start(a, entity{kind: kind, id: id}, about)
	switch b.Stage {
	case event.StageDelta:
		r.content(a, kind, id, delta)
	case event.StageStart:
	case event.StageStop:
		if !r.hasContent(a, id) && !b.Discarded {
			r.content(a, kind, id, whole)
		}
		r.stop(a, id)
		if b.Discarded {
			r.discard(a, id, b.Reason)
		}
	}
}

// finalAnswer describes the message of a final answer.
func finalAnswer(b event.FinalAnswer) Metadata {
	if b.Stage != event.StageStart {
		return Metadata{"finalAnswer": true}
	}
	about := Metadata{"finalAnswer": true}
	for name, value := range map[string]string{"title": b.Title, "format": b.Format, "kind": b.Kind} {
		if value != "" {
			about[name] = value
		}
	}
	return about
}

// thinking projects a block of reasoning.
func (r *run) thinking(a *agent, b event.Thinking) {
	r.prose(a, b.Block, event.NameThinking, b.Delta, b.Thinking, nil)
	if b.Stage == event.StageStop && b.Signature != "" && !b.Discarded {
		r.emit(a, Event{Type: ReasoningEncryptedValue, Subtype: "message", EntityID: blockID(b.Block), EncryptedValue: b.Signature})
	}
}

// call projects a call of a tool.
func (r *run) call(a *agent, b event.ToolCall) {
	r.start(a, entity{kind: event.NameToolCall, id: b.ToolCallID, name: b.Tool}, nil)
	switch b.Stage {
	case event.StageDelta:
		r.content(a, event.NameToolCall, b.ToolCallID, b.Delta)
	case event.StageStart:
	case event.StageStop:
		if !r.hasContent(a, b.ToolCallID) && !b.Discarded {
			r.content(a, event.NameToolCall, b.ToolCallID, string(b.Args))
		}
		r.stop(a, b.ToolCallID)
		if b.Discarded {
			r.discard(a, b.ToolCallID, b.Reason)
		}
	}
}

// discard replaces a message that does not count with an activity, which clients do not send back. AG-UI cannot take back a
// message in another way, except by a snapshot of all messages.
func (r *run) discard(a *agent, id, reason string) {
	r.emit(a, Event{Type: ActivitySnapshot, MessageID: id, ActivityType: "discarded", Content: encode(map[string]any{"reason": reason})})
}

// result projects what the tool prints, and its end.
func (r *run) result(a *agent, b event.ToolResult) {
	switch {
	case b.Stage == event.StageDelta:
		if r.toolOutput != nil && r.toolOutput() {
			r.custom(a, "tool_output", map[string]any{"toolCallId": b.ToolCallID, "delta": b.Delta}, "")
		}
	case b.Stage == event.StageStop && !b.Discarded:
		about := Metadata{"status": string(b.Status)}
		if b.ElapsedMS > 0 {
			about["elapsedMs"] = b.ElapsedMS
		}
		own := slices.Contains(r.answered, id.Derive(id.Action, b.ToolCallID))
		r.emit(a, Event{
			own:  own,
			Type: ToolCallResult, MessageID: resultID(b.ToolCallID), ToolCallID: b.ToolCallID, Role: roleTool,
			Content: resultContent(b, r.threadID), Metadata: about,
		})
	}
}

// other projects what AG-UI has no event for.
func (r *run) other(a *agent, body event.Body) {
	switch b := body.(type) {
	case event.Plan:
		r.planned(a, b)
	case event.Custom:
		value := b.Data
		if len(value) == 0 {
			value = json.RawMessage("{}")
		}
		r.custom(a, b.Type, value, b.ToolCallID)
	case event.Notice, event.ContextCompressed, event.UsageSoFar:
		if u, ok := body.(event.UsageSoFar); ok && a == r.top {
			r.model = cmp.Or(u.Model, r.model)
		}
		r.custom(a, string(body.Name()), body, "")
	}
}

// custom adds an event of an application.
func (r *run) custom(a *agent, name string, value any, toolCallID string) {
	e := Event{Type: Custom, Name: name, Value: encode(value)}
	if toolCallID != "" {
		e.Metadata = Metadata{"toolCallId": toolCallID}
	}
	r.emit(a, e)
}

// planned shows the whole plan as one activity of the thread.
func (r *run) planned(a *agent, b event.Plan) {
	if b.Stage == event.StageStart || len(b.Steps) > 0 {
		r.plan = b.Steps
	}
	content := map[string]any{"steps": slices.Concat([]event.PlanStep{}, r.plan), "finished": b.Stage == event.StageStop}
	if b.Summary != "" {
		content["summary"] = b.Summary
	}
	r.emit(a, Event{Type: ActivitySnapshot, MessageID: planID(r.threadID, a.runID), ActivityType: "PLAN", Content: encode(content)})
}

func planID(threadID, subagentRunID string) string { return "plan-" + cmp.Or(subagentRunID, threadID) }

// resultID returns the id of the message of a tool's result.
func resultID(toolCallID string) string { return toolCallID + resultSuffix }

const resultSuffix = "-result"

// encode returns a value as JSON. Values are those of decoded events, which can be encoded.
func encode(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, options)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}
