package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// message turns the events of a message, in order and from the first one, into chunks. Deltas may be missing, as in what
// history returns: then a stop becomes the start, the content and the end.
type message struct {
	codec     Codec
	begun     bool // the start is written
	requestID string
	threadID  string
	tools     []string // of the client, that requests have declared
	calls     map[string]*call
	answers   map[string]event.ActionResult // by action
	outputs   map[string]event.ToolOutput   // by call, until its result
	open      []*part
	step      step
	plan      []event.PlanStep
	out       []Chunk
}

// call is a tool call of the message.
type call struct {
	dynamic    bool // the type of its part is dynamic-tool
	approvalID string
	answered   bool // the client has its output
}

// part is a text, a reasoning or a call whose end is not written.
type part struct {
	kind       event.Name
	id         string // of the part
	block      string
	name       string // of a tool
	about      json.RawMessage
	hasContent bool
	lost       bool // a reset has removed it; its stop writes it as a whole
}

func newMessage(c Codec) *message {
	m := &message{codec: c, calls: map[string]*call{}, answers: map[string]event.ActionResult{}, outputs: map[string]event.ToolOutput{}}
	for _, known := range c.Continued.Calls {
		m.calls[known.ID] = &call{dynamic: known.Dynamic, approvalID: known.ApprovalID, answered: known.Answered}
		m.step.client = true
	}
	return m
}

// isLast reports whether a request is the last one of the message.
func (m *message) isLast(requestID string) bool {
	return m.codec.Last == "" || m.codec.Last == requestID
}

// project returns what an event becomes.
func (m *message) project(e event.Event) []Chunk {
	m.out = nil
	switch e.Body.(type) {
	case event.Claim, event.Unknown:
		return nil
	}
	if m.requestID != e.RequestID {
		m.begin(e)
	}
	m.fold(e.Body)
	return m.out
}

// begin writes the start of the message, or notes that the next request continues it.
func (m *message) begin(e event.Event) {
	m.requestID = e.RequestID
	about := &Metadata{RequestID: e.RequestID}
	if input, ok := e.Body.(event.Input); ok {
		about.ThreadID, about.AgentID = input.ThreadID, input.AgentID
	}
	if m.begun {
		m.emit(Chunk{Type: MessageMetadata, MessageMetadata: about})
		return
	}
	m.begun = true
	about.CreatedAt = e.Time.UTC().Format(time.RFC3339Nano)
	m.emit(Chunk{Type: Start, MessageID: cmp.Or(m.codec.Continued.ID, e.RequestID), MessageMetadata: about})
}

// emit writes a chunk that a reset of the step does not remove.
func (m *message) emit(c Chunk) { m.out = append(m.out, c) }

// keep writes a chunk of a block, "" = of none, that is written again after a reset of the step.
func (m *message) keep(block string, c Chunk) {
	m.emit(c)
	m.step.keep(block, c)
}

// fold projects an event.
func (m *message) fold(body event.Body) {
	switch b := body.(type) {
	case event.Input:
		m.input(b)
	case event.Metadata:
		m.threadID = cmp.Or(m.threadID, b.ThreadID)
		if b.Model != "" || b.Provider != "" {
			m.emit(Chunk{Type: MessageMetadata, MessageMetadata: &Metadata{Provider: b.Provider, Model: b.Model}})
		}
	case event.Text:
		m.prose(b.Block, event.NameText, b.Delta, b.Text, nil)
	case event.FinalAnswer:
		m.prose(b.Block, event.NameText, b.Delta, b.Content, finalAnswer(b))
	case event.Thinking:
		m.prose(b.Block, event.NameThinking, b.Delta, b.Thinking, nil)
	case event.ToolCall:
		m.call(b)
	case event.ToolResult:
		m.result(b)
	case event.ToolOutput:
		m.outputs[b.ToolCallID] = b
	case event.Continuation:
		m.action(b)
	case event.UsageSoFar:
		m.step.over = true
		m.emit(Chunk{Type: MessageMetadata, MessageMetadata: &Metadata{Model: b.Model, Usage: usageOf(&b.Usage)}})
	case event.Done, event.Error, event.Aborted:
		m.end(body)
	default:
		m.data(body)
	}
}

// input notes the tools and the answers of a request, and shows a steer.
func (m *message) input(b event.Input) {
	m.threadID = cmp.Or(m.threadID, b.ThreadID)
	if b.SteerID == "" {
		for _, t := range b.Tools {
			m.tools = append(m.tools, t.Name)
		}
		for _, a := range b.ActionResults {
			m.answers[a.ActionID] = a
			m.answer(a)
		}
		return
	}
	for i, one := range b.Messages {
		steer := Chunk{Type: SteeringMessage, ID: cmp.Or(one.ID, steerID(b.SteerID, i))}
		for _, p := range one.Content {
			steer.Parts = append(steer.Parts, partOf(p, m.threadID))
		}
		m.keep("", steer)
	}
}

// isClients reports whether the client runs a tool.
func (m *message) isClients(tool string) bool {
	return tool == askUser || slices.Contains(m.codec.ClientTools, tool) || slices.Contains(m.tools, tool)
}

// askUser is the tool by which a model asks the user: the client answers it as a tool of its own.
const askUser = "ask_user"

// find returns the open part of a block, or nil.
func (m *message) find(block string) *part {
	for _, p := range m.open {
		if p.block == block {
			return p
		}
	}
	return nil
}

// close removes a part from the open ones.
func (m *message) close(p *part) {
	m.open = slices.DeleteFunc(m.open, func(one *part) bool { return one == p })
}
