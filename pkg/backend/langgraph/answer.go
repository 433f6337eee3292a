package langgraph

import (
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// maxArgs limits the arguments of a call, in bytes.
const maxArgs = 1 << 20

// begin returns the message of the agent with an id; nil for one of an earlier turn. A new one ends those before it.
func (r *reader) begin(id string) (*answer, error) {
	if r.known[id] {
		return nil, nil //nolint:nilnil // see above
	}
	if a := r.answers[id]; a != nil {
		return a, nil
	}
	if len(r.answers) >= maxParts {
		return nil, r.tooMany()
	}
	if len(r.answered) > 0 {
		last := r.answered[len(r.answered)-1]
		r.complete()
		if r.running {
			if err := r.step(last); err != nil {
				return nil, err
			}
		}
	}
	a := &answer{id: id, chunked: map[int]*call{}}
	r.answers[id], r.answered = a, append(r.answered, a)
	return a, nil
}

// step ends a turn of the agent's model.
func (r *reader) step(last *answer) error {
	r.running = false
	if err := r.startCalls(); err != nil {
		return err
	}
	return r.emit(backend.Step{Usage: last.usage, Model: r.outcome.Model})
}

// chunk reads a part of a message.
func (r *reader) chunk(m message) error {
	a, err := r.begin(m.ID)
	if err != nil || a == nil || a.whole {
		return err
	}
	r.about(a, m)
	a.usage = a.usage.Add(m.Usage.event())
	text, thinking := m.parts()
	if err := r.think(a, thinking); err != nil {
		return err
	}
	if err := r.say(a, text); err != nil {
		return err
	}
	if len(m.CallChunks) == 0 {
		if err := r.wholeCalls(m); err != nil {
			return err
		}
	}
	for i, c := range m.CallChunks {
		if c.Index != nil {
			i = *c.Index
		}
		if err := r.callChunk(a, i, c); err != nil {
			return err
		}
	}
	return nil
}

// whole reads a complete message, of which parts may have been read before.
func (r *reader) whole(m message) error {
	r.alias(m)
	a, err := r.begin(m.ID)
	if err != nil || a == nil || a.whole {
		return err
	}
	r.about(a, m)
	text, thinking := m.parts()
	if rest, ok := strings.CutPrefix(thinking, a.thinking); ok && a.text == "" {
		if err := r.think(a, rest); err != nil {
			return err
		}
	}
	if rest, ok := strings.CutPrefix(text, a.text); ok {
		if err := r.say(a, rest); err != nil {
			return err
		}
	}
	if err := r.wholeCalls(m); err != nil {
		return err
	}
	if m.Usage != nil {
		a.usage = m.Usage.event()
	}
	r.complete()
	a.whole = true
	return r.endText()
}

// wholeCalls reads the calls of a message with their whole arguments.
func (r *reader) wholeCalls(m message) error {
	for _, c := range m.ToolCalls {
		if r.known[c.ID] || c.ID == "" || c.Name == "" {
			continue
		}
		one, err := r.callOf(c.ID, c.Name)
		if err != nil {
			return err
		}
		if !one.complete {
			one.args = c.Args
		}
	}
	return nil
}

// complete completes the calls until now: their message has ended.
func (r *reader) complete() {
	for _, c := range r.order {
		c.complete = true
	}
}

// alias recognises a complete message whose parts had another id: not every model gives both the same.
func (r *reader) alias(m message) {
	text, _ := m.parts()
	if r.answers[m.ID] != nil || text == "" || len(r.answered) == 0 {
		return
	}
	if last := r.answered[len(r.answered)-1]; !last.whole && last.text == text {
		r.answers[m.ID] = last
	}
}

// about notes the model of a message, and whether it is the whole answer. Servers in JavaScript join the names of all parts.
func (r *reader) about(a *answer, m message) {
	if name := m.model(); name != "" && !a.named {
		r.outcome.Model, a.named = name, true
	}
	r.outcome.Finish = ""
	if a.long = a.long || m.long(); a.long {
		r.outcome.Finish = event.FinishLength
	}
}

// say emits text of a message.
func (r *reader) say(a *answer, text string) error {
	if text == "" {
		return nil
	}
	if err := r.switchTo(a, false); err != nil {
		return err
	}
	a.text += text
	return r.emit(backend.TextDelta(text))
}

// think emits reasoning of a message.
func (r *reader) think(a *answer, text string) error {
	if text == "" {
		return nil
	}
	if err := r.switchTo(a, true); err != nil {
		return err
	}
	a.thinking += text
	return r.emit(backend.ThinkingDelta(text))
}

// switchTo ends what is open, unless it is the text, or the thinking, of a message.
func (r *reader) switchTo(a *answer, thinks bool) error {
	if r.open == a && r.thinks == thinks {
		return nil
	}
	if err := r.endText(); err != nil {
		return err
	}
	if err := r.startCalls(); err != nil {
		return err
	}
	r.open, r.thinks = a, thinks
	return nil
}

// endText completes the open text with the id of its message.
func (r *reader) endText() error {
	a := r.open
	r.open = nil
	if a == nil || r.thinks {
		return nil
	}
	return r.emit(backend.TextSignature(note{ID: a.id}.String()))
}

// callChunk reads a part of a call.
func (r *reader) callChunk(a *answer, index int, part toolCallChunk) error {
	c := a.chunked[index]
	if c == nil || part.ID != "" && part.ID != c.id {
		if part.ID == "" || part.Name == "" || r.known[part.ID] {
			return nil // the whole message has the call
		}
		var err error
		if c, err = r.callOf(part.ID, part.Name); err != nil {
			return err
		}
		a.chunked[index] = c
	}
	if len(c.args)+len(part.Args) > maxArgs {
		return r.agent.Broke("the arguments of call %q are longer than %d bytes", c.id, maxArgs)
	}
	c.args = append(c.args, part.Args...)
	return nil
}

// callOf returns the call with an id.
func (r *reader) callOf(id, name string) (*call, error) {
	if c := r.calls[id]; c != nil {
		return c, nil
	}
	if len(r.calls) >= maxParts {
		return nil, r.tooMany()
	}
	c := &call{id: id, name: name}
	r.calls[id], r.order = c, append(r.order, c)
	return c, r.endText()
}

// startCalls reports the calls that wait as running.
func (r *reader) startCalls() error {
	for _, c := range r.order {
		if c.waits() {
			if err := r.start(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) start(c *call) error {
	if c.running || c.handled {
		return nil
	}
	c.running, r.running = true, true
	return r.emit(backend.ToolStarted{ID: c.id, Name: c.name, Args: object(c.args), Signature: note{ID: c.id}.String()})
}

// toolResult ends a call that the agent has run.
func (r *reader) toolResult(m message) error {
	if r.known[m.ToolCallID] || m.ToolCallID == "" {
		return nil
	}
	c := r.calls[m.ToolCallID]
	if c == nil {
		var err error
		if c, err = r.earlier(m); err != nil {
			return err
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
	c.handled, c.complete = true, true
	status := event.ToolSuccess
	if m.Status == "error" {
		status = event.ToolFailed
	}
	return r.emit(backend.ToolEnded{ID: c.id, Status: status, Content: m.output()})
}

// earlier returns the call of a result whose call this run has not shown: one of an earlier run, which the user has allowed.
func (r *reader) earlier(m message) (*call, error) {
	name, args := m.Name, []byte(nil)
	for _, message := range r.turn.Messages {
		for _, p := range message.Parts {
			if p, ok := p.(backend.Call); ok && read(p.Signature).ID == m.ToolCallID {
				name, args = p.Name, p.Args
			}
		}
	}
	if name == "" {
		name = "tool"
	}
	c, err := r.callOf(m.ToolCallID, name)
	if err == nil {
		c.args = args
	}
	return c, err
}
