package agui

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// reader turns the events of a run into chunks.
type reader struct {
	agent   upstream.Agent
	settle  time.Duration
	turn    backend.Turn
	emit    backend.Emit
	outcome backend.Outcome
	text    string // id of the message whose text is open
	silent  map[string]bool
	said    bool
	last    string           // text of the agent's newest message in a snapshot
	thought string           // id of the open reasoning
	sealed  string           // its encrypted value
	calls   map[string]*call // by the agent's ids
	order   []*call
	chunked string // id of the call that chunks continue
	agents  map[string]*strings.Builder
	asked   int // calls of ours
}

// call is a tool call of the agent.
type call struct {
	id, name, parent string
	args             []byte
	complete         bool // its arguments are
	running          bool
	handled          bool // it has ended, or became a call of ours
}

// arguments are those of a call; an empty object for what is not an object.
func (c *call) arguments() json.RawMessage {
	if v := jsontext.Value(c.args); v.IsValid() && v.Kind() == '{' {
		return json.RawMessage(c.args)
	}
	return json.RawMessage("{}")
}

const maxArgs = 1 << 20 // bytes of the arguments of a call

func newReader(b *Backend, turn backend.Turn, emit backend.Emit) *reader {
	return &reader{
		agent: b.agent.Named(turn.AgentID), settle: b.settle, turn: turn, emit: emit, silent: map[string]bool{}, calls: map[string]*call{},
		agents: map[string]*strings.Builder{},
	}
}

// read reads the events of a run to its end.
func (r *reader) read(ahead *upstream.Ahead) error {
	for {
		wait := time.Duration(0)
		if slices.ContainsFunc(r.order, r.waits) {
			wait = r.settle
		}
		value, err := ahead.Next(wait)
		if errors.Is(err, upstream.ErrNothingYet) {
			if err := r.startCalls(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		var e aguiEvent
		if err := jsonv2.Unmarshal(value.Data, &e); err != nil {
			return r.agent.API().Malformed(err)
		}
		ended, err := r.take(e)
		if ended || err != nil {
			return err
		}
	}
}

// waits reports whether a call of one of the agent's tools is complete, and it is not known whether it runs. Calls of the turn's
// tools wait for the end of the run: agentbus, or the client, may have to run them.
func (r *reader) waits(c *call) bool {
	return c.complete && !c.running && !c.handled && !r.offered(c.name)
}

// startCalls reports the calls that wait as running.
func (r *reader) startCalls() error {
	for _, c := range r.order {
		if !r.waits(c) {
			continue
		}
		if err := r.start(c); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) offered(name string) bool {
	for _, t := range r.turn.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

func (r *reader) start(c *call) error {
	if c.running || c.handled {
		return nil
	}
	c.running = true
	return r.emit(backend.ToolStarted{
		ID: c.id, Name: c.name, Args: c.arguments(), Signature: note{ID: c.id, Message: c.parent}.String(),
	})
}

// take emits what an event says, and reports whether it was the last.
func (r *reader) take(e aguiEvent) (ended bool, err error) {
	switch e.Type {
	case runFinished:
		return true, r.finish(e)
	case runError:
		r.outcome.Usage, _ = e.used()
		detail := e.Message
		if detail == "" {
			detail = e.Code
		}
		return true, r.agent.Failed(detail, e.about().Retryable)
	case subagentStarted, subagentFinished, subagentError:
		return false, r.subagent(e)
	}
	if e.SubagentRunID != "" {
		return false, r.below(e)
	}
	switch e.Type {
	case textStart, textContent, textEnd, textChunk:
		err = r.message(e)
	case reasoningContent, reasoningChunk, thinkingContent, reasoningEncrypted:
		err = r.reasoning(e)
	case toolCallStart, toolCallArgs, toolCallEnd, toolCallChunk:
		err = r.toolCall(e)
	case toolCallResult:
		err = r.result(e)
	case messagesSnapshot:
		r.snapshot(e)
	case stateSnapshot, stateDelta, activitySnapshot, activityDelta, custom:
		err = r.other(e)
	}
	return false, err
}

// message takes a part of a text message. Those of other roles than the assistant's repeat what the agent got.
func (r *reader) message(e aguiEvent) error {
	if e.Role != "" && e.Role != "assistant" {
		r.silent[e.MessageID] = true
	}
	id := e.MessageID
	if id == "" {
		id = r.text
	}
	if r.silent[id] {
		return nil
	}
	if id != r.text || r.thought != "" || e.Type == textEnd {
		if err := r.endText(); err != nil {
			return err
		}
	}
	if e.text() == "" {
		return nil
	}
	if err := r.startCalls(); err != nil {
		return err
	}
	r.text, r.said = id, true
	return r.emit(backend.TextDelta(e.text()))
}

// endText completes the open text or reasoning with the id of its message, and with what the agent wants back.
func (r *reader) endText() error {
	text, thought := r.text, r.thought
	r.text, r.thought = "", ""
	switch {
	case text != "":
		return r.emit(backend.TextSignature(note{ID: text}.String()))
	case thought != "":
		return r.emit(backend.Signature(note{ID: thought, Encrypted: r.sealed}.String()))
	default:
		return nil
	}
}

// reasoning takes a part of a reasoning message. The encrypted value may follow its end.
func (r *reader) reasoning(e aguiEvent) error {
	switch {
	case e.Type == reasoningEncrypted && e.EntityID == r.thought:
		r.sealed = e.EncryptedValue
		return r.endText()
	case e.Type == reasoningEncrypted, e.text() == "":
		return nil
	}
	if r.text != "" || r.thought != e.MessageID {
		if err := r.endText(); err != nil {
			return err
		}
	}
	r.thought, r.sealed = e.MessageID, ""
	return r.emit(backend.ThinkingDelta(e.text()))
}

// toolCall takes a part of a call.
func (r *reader) toolCall(e aguiEvent) error {
	id := e.ToolCallID
	if e.Type == toolCallChunk && id == "" {
		id = r.chunked
	}
	c := r.calls[id]
	switch {
	case c == nil && (id == "" || e.ToolCallName == ""):
		return r.agent.Broke("%s %q has no start", e.Type, id)
	case c == nil:
		if err := r.endText(); err != nil {
			return err
		}
		if err := r.startCalls(); err != nil {
			return err
		}
		c = &call{id: id, name: e.ToolCallName, parent: e.ParentMessageID}
		r.calls[id], r.order = c, append(r.order, c)
	}
	if e.Type == toolCallChunk {
		r.chunked = id
	}
	if len(c.args)+len(e.text()) > maxArgs {
		return r.agent.Broke("the arguments of call %q are longer than %d bytes", id, maxArgs)
	}
	c.args = append(c.args, e.text()...)
	c.complete = c.complete || e.Type == toolCallEnd
	return nil
}

// result ends a call that the agent has run.
func (r *reader) result(e aguiEvent) error {
	c := r.calls[e.ToolCallID]
	if c == nil {
		var ok bool
		if c, ok = r.earlier(e.ToolCallID); !ok {
			return nil // a result without a call
		}
	}
	if c.handled {
		return nil
	}
	if err := r.endText(); err != nil {
		return err
	}
	if err := r.start(c); err != nil {
		return err
	}
	c.handled = true
	status := e.about().Status
	if !slices.Contains([]event.ToolStatus{event.ToolFailed, event.ToolDenied, event.ToolAborted, event.ToolUnknown}, status) {
		status = event.ToolSuccess
	}
	return r.emit(backend.ToolEnded{ID: c.id, Status: status, Content: contentText(e.Content)})
}

// earlier returns a call of an earlier run, which the user has allowed.
func (r *reader) earlier(id string) (*call, bool) {
	for _, m := range slices.Backward(r.turn.Messages) {
		for _, p := range m.Parts {
			if p, ok := p.(backend.Call); ok && read(p.Signature).ID == id {
				c := &call{id: id, name: p.Name, parent: read(p.Signature).Message, args: p.Args, complete: true}
				r.calls[id], r.order = c, append(r.order, c)
				return c, true
			}
		}
	}
	return nil, false
}

// contentText is the content of a message as text: a string, or parts of which the texts are joined.
func contentText(content json.RawMessage) string {
	var text string
	if jsonv2.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []part
	if jsonv2.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	var texts []string
	for _, p := range parts {
		if p.Type != "text" {
			p.Text = "[" + p.Type + "]"
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// snapshot notes the agent's newest message. Some agents show their answer by a snapshot alone.
func (r *reader) snapshot(e aguiEvent) {
	r.last = ""
	for _, m := range e.Messages {
		switch m.Role {
		case "assistant":
			r.last = contentText(m.Content)
		case "user", "tool":
			r.last = ""
		}
	}
}
