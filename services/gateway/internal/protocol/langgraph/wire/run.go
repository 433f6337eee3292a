package wire

import (
	"cmp"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/event"
)

// part is one event of a stream.
type part struct {
	name string
	data any // is encoded before the next event is projected
}

// run turns the events of one log, in order and from the first one, into the events of its stream.
type run struct {
	modes   Modes
	earlier func() (Values, error)
	muted   bool // the client has what the current event becomes

	begun   bool
	held    []event.Input // that came before the run began
	state   state
	waiting []Interrupt
	out     []part
}

// project returns what an event becomes.
func (r *run) project(e event.Event) ([]part, error) {
	r.out = nil
	if e.Body.Name().IsInternal() {
		return nil, nil
	}
	switch b := e.Body.(type) {
	case event.Claim, event.Unknown:
		return nil, nil
	case event.Input:
		if !r.begun {
			r.held = append(r.held, b)
			return nil, nil
		}
	}
	if !r.begun {
		if err := r.begin(e); err != nil {
			return nil, err
		}
	}
	r.fold(e)
	return r.out, nil
}

// begin begins the stream with the first event that shows that a runner has taken the request, or that it has ended.
func (r *run) begin(e event.Event) error {
	var before Values
	if r.earlier != nil {
		var err error
		if before, err = r.earlier(); err != nil {
			return err
		}
	}
	r.begun = true
	r.state = newState(before.Messages, before.Todos)
	r.state.begin(e.RequestID)
	for _, b := range r.held {
		r.state.input(b)
	}
	r.held = nil
	r.emit("metadata", map[string]any{"run_id": e.RequestID, "attempt": 1})
	r.values()
	return nil
}

// emit adds an event, unless the client has it.
func (r *run) emit(name string, data any) {
	if !r.muted {
		r.out = append(r.out, part{name, data})
	}
}

func (r *run) values() {
	if r.modes.Values {
		v := r.state.values()
		v.Interrupts = r.waiting
		r.emit(modeValues, v)
	}
}

// fold projects an event of the run.
func (r *run) fold(e event.Event) {
	switch b := e.Body.(type) {
	case event.Metadata:
		r.state.threadID = b.ThreadID
	case event.Input: // a steer
		r.complete(r.state.close())
		r.state.input(b)
		r.values()
	case event.Text:
		r.text(b.Block, event.NameText, b.Delta, b.Text)
	case event.FinalAnswer:
		r.text(b.Block, event.NameText, b.Delta, b.Content)
	case event.Thinking:
		r.text(b.Block, event.NameThinking, b.Delta, b.Thinking)
	case event.ToolCall:
		r.call(b)
	case event.ToolResult:
		r.result(b)
	case event.UsageSoFar:
		r.usage(b.Usage)
	case event.Plan:
		r.state.plan(b)
		r.update(nodeAgent, change{Todos: r.state.todos})
		r.values()
	case event.Continuation:
		r.complete(r.state.close())
		r.waiting = append(r.waiting, NewInterrupt(b.ActionID, b.Kind, b.Payload))
	case event.Custom:
		r.custom(b.Type, json.RawMessage(cmp.Or(string(b.Data), "{}")))
	case event.Notice:
		r.custom("notice", encode(map[string]any{"level": b.Level, "message": b.Message}))
	case event.Done, event.Error, event.Aborted:
		r.end(e.Body)
	}
}

// text projects a block of text or of reasoning.
func (r *run) text(at event.Block, kind event.Name, delta, whole string) {
	b, first, closed := r.state.at(at, kind)
	r.complete(closed)
	switch at.Stage {
	case event.StageDelta:
		b.text = append(b.text, delta...)
	case event.StageStart:
		return
	case event.StageStop:
		if at.Discarded {
			r.state.discard(at.BlockID)
			r.values()
			return
		}
		if len(b.text) > 0 || whole == "" {
			return
		}
		delta, b.text, first = whole, []byte(whole), true
	}
	if delta == "" {
		return
	}
	begins := first || len(b.text) == len(delta)
	if kind == event.NameText && begins && r.state.draft.count(event.NameText) > 1 {
		delta = separator + delta
	}
	chunk := Message{Content: encode(delta)}
	if kind == event.NameThinking {
		chunk = Message{Content: encode(""), AdditionalKwargs: Kwargs{Reasoning: delta}}
	}
	r.chunk(chunk)
}

// call projects a call of a tool.
func (r *run) call(c event.ToolCall) {
	b, _, closed := r.state.at(c.Block, event.NameToolCall)
	r.complete(closed)
	chunk := ToolCallChunk{Index: r.state.draft.count(event.NameToolCall) - 1, Args: c.Delta, Type: "tool_call_chunk"}
	if b.call == "" { // its first event
		b.call, chunk.ID = c.ToolCallID, c.ToolCallID
	}
	if b.name == "" && c.Tool != "" {
		b.name, chunk.Name = c.Tool, c.Tool
	}
	switch {
	case c.Stage == event.StageDelta:
		b.text = append(b.text, c.Delta...)
	case c.Stage == event.StageStop && c.Discarded:
		r.state.discard(c.BlockID)
		r.values()
		return
	case c.Stage == event.StageStop:
		r.state.tools[c.ToolCallID] = b.name
		b.whole = c.Args
		if len(b.text) == 0 {
			chunk.Args = string(object(c.Args))
		}
	}
	if chunk.ID != "" || chunk.Name != "" || chunk.Args != "" {
		r.chunk(Message{Content: encode(""), ToolCallChunks: []ToolCallChunk{chunk}})
	}
	if c.Stage == event.StageStop && r.modes.Tools {
		r.emit(modeTools, toolEvent{Event: "on_tool_start", ToolCallID: c.ToolCallID, Name: b.name, Input: object(c.Args)})
	}
}

// chunk sends a part of the message that grows.
func (r *run) chunk(m Message) {
	if r.modes.Tuples {
		m.Type, m.ID = typeAIChunk, r.state.draft.id
		r.tuple(m, nodeAgent)
	}
	if r.modes.Messages {
		r.emit("messages/partial", []Message{r.state.draft.message()})
	}
}

// tuple sends a message of a node.
func (r *run) tuple(m Message, node string) {
	r.emit("messages", []any{m, map[string]any{
		"langgraph_node": node, "run_id": r.state.requestID, "thread_id": r.state.threadID,
	}})
}

// toolEvent is an event of the mode tools.
type toolEvent struct {
	Event      string          `json:"event"` // on_tool_start, on_tool_end, on_tool_error
	ToolCallID string          `json:"toolCallId"`
	Name       string          `json:"name"`
	Input      json.RawMessage `json:"input,omitzero"`
	Output     *Message        `json:"output,omitempty"`
	Error      string          `json:"error,omitempty"`
}

// result projects the end of a call.
func (r *run) result(b event.ToolResult) {
	if b.Stage != event.StageStop || b.Discarded {
		return // the state does not have the output of a tool that runs
	}
	r.complete(r.state.close())
	m := toolMessage(b, cmp.Or(b.Tool, r.state.tools[b.ToolCallID]), r.state.threadID)
	r.state.messages = append(r.state.messages, m)
	if r.modes.Tools {
		one := toolEvent{Event: "on_tool_end", ToolCallID: b.ToolCallID, Name: m.Name, Output: &m}
		if m.Status == "error" {
			one = toolEvent{Event: "on_tool_error", ToolCallID: b.ToolCallID, Name: m.Name, Error: cmp.Or(b.Summary, string(b.Status))}
		}
		r.emit(modeTools, one)
	}
	if r.modes.Tuples {
		r.tuple(m, nodeTools)
	}
	r.whole(m, nodeTools)
}

// usage projects the end of a turn, whose tokens are those of its message.
func (r *run) usage(total event.Usage) {
	closed := r.state.close()
	m, ok := r.state.usage(total)
	if ok && r.modes.Tuples {
		r.tuple(Message{Type: typeAIChunk, ID: m.ID, Content: encode(""), Usage: m.Usage}, nodeAgent)
	}
	if closed != nil {
		closed.Usage = m.Usage
	}
	r.complete(closed)
}

// complete projects the end of a message of the agent; nil = none.
func (r *run) complete(m *Message) {
	if m != nil {
		r.whole(*m, nodeAgent)
	}
}

// The nodes of the graph that an agent looks like.
const (
	nodeAgent = "agent"
	nodeTools = "tools"
)

// whole sends a complete message.
func (r *run) whole(m Message, node string) {
	if r.modes.Messages {
		r.emit("messages/complete", []Message{m})
	}
	r.update(node, change{Messages: []Message{m}})
	r.values()
}

// change is what a node has changed.
type change struct {
	Messages []Message `json:"messages,omitempty"`
	Todos    []Step    `json:"todos,omitempty"`
}

func (r *run) update(node string, changed any) {
	if r.modes.Updates {
		r.emit(modeUpdates, map[string]any{node: changed})
	}
}

// custom is an event of the application.
type custom struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

func (r *run) custom(kind string, data json.RawMessage) {
	if r.modes.Custom {
		r.emit(modeCustom, custom{kind, data})
	}
}

// RunError is an error of a run.
type RunError struct {
	Error   string `json:"error"` // a code
	Message string `json:"message"`
}

// end projects a terminal event.
func (r *run) end(body event.Body) {
	r.complete(r.state.close())
	if failed, ok := EndError(body); ok {
		r.emit("error", failed)
		return
	}
	if len(r.waiting) > 0 {
		r.update("__interrupt__", r.waiting)
	}
	r.values()
	r.emit("end", nil)
}

// EndError returns the error with which a terminal event ends a run. A run that was cancelled has none: it is interrupted.
func EndError(body event.Body) (RunError, bool) {
	b, failed := body.(event.Error)
	return RunError{string(b.Code), cmp.Or(b.Message, string(b.Code))}, failed
}
