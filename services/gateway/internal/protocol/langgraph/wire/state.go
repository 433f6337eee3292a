package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
)

// Values is the state of a thread: what LangGraph calls the values of its channels.
type Values struct {
	Messages   []Message   `json:"messages"`
	Todos      []Step      `json:"todos,omitempty"`
	Interrupts []Interrupt `json:"__interrupt__,omitempty"`
}

// state is the conversation of a thread, which grows with the events of its requests. Deltas may be missing, as in what
// history returns.
type state struct {
	requestID string // whose events come now
	threadID  string
	messages  []Message
	todos     []Step
	draft     *draft            // the message of the agent that grows; nil = none
	tools     map[string]string // names of the tools by call
	used      event.Usage       // of the request until its last turn
	turn      int               // index of the agent's last message; -1 = none
}

// draft is a message of the agent that grows.
type draft struct {
	id        string
	messageID string // of its blocks
	blocks    []draftBlock
}

// draftBlock is a block of a draft.
type draftBlock struct {
	id    string
	kind  event.Name // text, thinking, tool_call
	call  string     // the id of a call
	name  string     // of the tool
	text  []byte     // or the arguments
	whole json.RawMessage
}

func newState(messages []Message, todos []Step) state {
	return state{messages: slices.Clip(messages), todos: todos, tools: map[string]string{}, turn: -1}
}

// begin begins a request.
func (s *state) begin(requestID string) {
	s.requestID, s.draft, s.used, s.turn = requestID, nil, event.Usage{}, -1
}

// values returns the state with the message that grows.
func (s *state) values() Values {
	v := Values{Messages: s.messages, Todos: s.todos}
	if s.draft != nil {
		v.Messages = append(slices.Clip(v.Messages), s.draft.message())
	}
	if v.Messages == nil {
		v.Messages = []Message{}
	}
	return v
}

// input adds the messages of the user.
func (s *state) input(b event.Input) {
	s.threadID = cmp.Or(s.threadID, b.ThreadID)
	for i, m := range b.History {
		s.messages = append(s.messages, historyMessage(m, s.requestID+"-history-"+strconv.Itoa(i), b.ThreadID))
	}
	for i, m := range b.Messages {
		name := cmp.Or(b.SteerID, s.requestID+"-user")
		s.messages = append(s.messages, Message{
			Type: typeHuman, ID: cmp.Or(m.ID, name+"-"+strconv.Itoa(i)), Content: contentOf(m.Content, b.ThreadID),
		})
	}
}

// historyMessage returns a message of the conversation with which a thread began.
func historyMessage(m event.HistoryMessage, name, threadID string) Message {
	one := Message{Type: typeHuman, ID: cmp.Or(m.ID, name), Content: contentOf(m.Content, threadID)}
	switch m.Role {
	case event.RoleAssistant:
		one.Type = typeAI
	case event.RoleSystem, event.RoleDeveloper:
		one.Type = typeSystem
	case event.RoleTool:
		one.Type, one.ToolCallID, one.Status = typeTool, m.ToolCallID, "success"
		if m.Status != "" && m.Status != event.ToolSuccess {
			one.Status = "error"
		}
	}
	for _, c := range m.ToolCalls {
		one.ToolCalls = append(one.ToolCalls, ToolCall{ID: c.ID, Name: c.Name, Args: object(c.Args), Type: "tool_call"})
	}
	return one
}

// at returns the block of an event in the message that grows. first reports whether the event begins the block, and closed is
// the message that ended because another one begins.
func (s *state) at(b event.Block, kind event.Name) (one *draftBlock, first bool, closed *Message) {
	if s.draft != nil && s.draft.messageID != b.MessageID {
		closed = s.close()
	}
	if s.draft == nil {
		s.draft = &draft{id: s.newID(b), messageID: b.MessageID}
	}
	for i := range s.draft.blocks {
		if s.draft.blocks[i].id == b.BlockID {
			return &s.draft.blocks[i], false, closed
		}
	}
	s.draft.blocks = append(s.draft.blocks, draftBlock{id: b.BlockID, kind: kind})
	return &s.draft.blocks[len(s.draft.blocks)-1], true, closed
}

// newID returns the id of the message that begins with a block. A turn that has the results of tools in its middle becomes
// several messages.
func (s *state) newID(b event.Block) string {
	whole := cmp.Or(b.MessageID, s.requestID+"-ai")
	if slices.ContainsFunc(s.messages, func(m Message) bool { return m.ID == whole }) {
		return whole + "-" + b.BlockID
	}
	return whole
}

// close ends the message that grows and returns it; nil = no message grows, or it has no blocks.
func (s *state) close() *Message {
	if s.draft == nil {
		return nil
	}
	empty, m := len(s.draft.blocks) == 0, s.draft.message()
	s.draft = nil
	if empty {
		return nil
	}
	s.turn = len(s.messages)
	s.messages = append(s.messages, m)
	return &m
}

// discard removes a block that does not count from the message that grows.
func (s *state) discard(blockID string) {
	s.draft.blocks = slices.DeleteFunc(s.draft.blocks, func(b draftBlock) bool { return b.id == blockID })
}

// message returns the message of the blocks.
func (d *draft) message() Message {
	m := Message{Type: typeAI, ID: d.id}
	var text []byte
	for _, b := range d.blocks {
		switch b.kind {
		case event.NameThinking:
			m.AdditionalKwargs.Reasoning += string(b.text)
		case event.NameToolCall:
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: b.call, Name: b.name, Args: object(b.whole), Type: "tool_call"})
		default:
			if len(text) > 0 {
				text = append(text, separator...)
			}
			text = append(text, b.text...)
		}
	}
	m.Content = encode(string(text))
	return m
}

// separator separates two texts of one message.
const separator = "\n\n"

// count returns how many blocks of a kind the message has.
func (d *draft) count(kind event.Name) (n int) {
	for _, b := range d.blocks {
		if b.kind == kind {
			n++
		}
	}
	return n
}

// usage adds the tokens of a turn to its message, and reports whether there is one.
func (s *state) usage(total event.Usage) (m Message, ok bool) {
	turn := total.Sub(s.used)
	s.used = total
	s.close()
	if s.turn < 0 || s.messages[s.turn].Usage != nil {
		return m, false
	}
	s.messages[s.turn].Usage = usageOf(turn)
	return s.messages[s.turn], true
}

// plan sets the steps of the plan: the first one that is not done is in progress.
func (s *state) plan(b event.Plan) {
	if b.Stage == event.StageStop {
		return
	}
	s.todos = make([]Step, 0, len(b.Steps))
	next := "in_progress"
	for _, step := range b.Steps {
		one := Step{step.Content, "completed"}
		if !step.Done {
			one.Status, next = next, "pending"
		}
		s.todos = append(s.todos, one)
	}
}

// object returns the arguments of a call; without any, an empty object.
func object(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}
