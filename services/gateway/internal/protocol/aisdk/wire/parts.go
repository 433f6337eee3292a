package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
)

// started returns the chunk that starts a text or a reasoning.
func (p part) started() Chunk {
	if p.kind == event.NameThinking {
		return Chunk{Type: ReasoningStart, ID: p.id}
	}
	return Chunk{Type: TextStart, ID: p.id, ProviderMetadata: p.about}
}

func (p part) delta(text string) Chunk {
	if p.kind == event.NameThinking {
		return Chunk{Type: ReasoningDelta, ID: p.id, Delta: text}
	}
	return Chunk{Type: TextDelta, ID: p.id, Delta: text}
}

func (p part) ended() Chunk {
	if p.kind == event.NameThinking {
		return Chunk{Type: ReasoningEnd, ID: p.id}
	}
	return Chunk{Type: TextEnd, ID: p.id}
}

// prose projects a block of text or reasoning.
func (m *message) prose(b event.Block, kind event.Name, delta, whole string, about json.RawMessage) {
	block := blockOf(b)
	if b.Discarded {
		m.discard(block)
		return
	}
	p := m.find(block)
	if p == nil {
		p = &part{kind: kind, id: block, block: block, about: about}
		m.beginStep()
		m.open = append(m.open, p)
		m.emit(p.started())
	}
	if delta != "" && !p.lost {
		p.hasContent = true
		m.emit(p.delta(delta))
	}
	if b.Stage == event.StageStop {
		m.close(p)
		m.finishProse(p, whole)
	}
}

// finishProse writes the end of a part, and what of it has not been written.
func (m *message) finishProse(p *part, whole string) {
	all := []Chunk{p.started(), p.ended()}
	if whole != "" {
		all = slices.Insert(all, 1, p.delta(whole))
	}
	for _, c := range all {
		m.step.keep(p.block, c)
	}
	switch {
	case p.lost:
		m.out = append(m.out, all...)
	case p.hasContent:
		m.emit(p.ended())
	default:
		m.out = append(m.out, all[1:]...)
	}
}

// finalAnswer describes the text of a final answer.
func finalAnswer(b event.FinalAnswer) json.RawMessage {
	type about struct {
		FinalAnswer bool   `json:"finalAnswer"`
		Title       string `json:"title,omitempty"`
		Format      string `json:"format,omitempty"`
		Kind        string `json:"kind,omitempty"`
	}
	return encode(map[string]about{"agentbus": {true, b.Title, b.Format, b.Kind}})
}

// call projects a call of a tool.
func (m *message) call(b event.ToolCall) {
	block := blockOf(b.Block)
	if b.Discarded {
		delete(m.calls, b.ToolCallID)
		m.discard(block)
		return
	}
	p := m.find(block)
	if p == nil {
		m.beginStep()
		p = &part{kind: event.NameToolCall, id: b.ToolCallID, block: block, name: cmp.Or(b.Tool, "unknown")}
		m.open = append(m.open, p)
		if b.Stage != event.StageStop {
			m.emit(Chunk{Type: ToolInputStart, ToolCallID: p.id, ToolName: p.name, Dynamic: !m.isClients(p.name)})
		}
	}
	if b.Delta != "" && !p.lost {
		m.emit(Chunk{Type: ToolInputDelta, ToolCallID: p.id, InputTextDelta: b.Delta})
	}
	if b.Stage == event.StageStop {
		m.close(p)
		m.introduce(block, p.id, p.name, b.Args)
	}
}

// introduce writes a call with its arguments. Until an action asks the client to run it, it counts as the server's: a client
// runs each call that is not.
func (m *message) introduce(block, callID, tool string, args json.RawMessage) *call {
	c := &call{dynamic: !m.isClients(tool)}
	m.calls[callID] = c
	m.keep(block, c.available(callID, tool, args, true))
	return c
}

// available returns the chunk that has the arguments of a call, and who runs it.
func (c *call) available(callID, tool string, args json.RawMessage, server bool) Chunk {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return Chunk{
		Type: ToolInputAvailable, ToolCallID: callID, ToolName: cmp.Or(tool, "unknown"), Dynamic: c.dynamic, Input: args, ProviderExecuted: &server,
	}
}

// result projects the end of a call. A client that has run the tool has its output.
func (m *message) result(b event.ToolResult) {
	output := m.outputs[b.ToolCallID]
	switch {
	case b.Stage == event.StageDelta:
		m.printed(b)
		return
	case b.Stage != event.StageStop:
		return
	}
	delete(m.outputs, b.ToolCallID)
	if b.Discarded {
		return
	}
	c, known := m.calls[b.ToolCallID]
	if !known {
		c = m.introduce("", b.ToolCallID, b.Tool, nil)
	}
	if c.answered {
		return
	}
	given := m.answers[id.Derive(id.Action, b.ToolCallID)].Result
	switch {
	case b.Status == event.ToolDenied && c.approvalID != "":
		m.keep("", Chunk{Type: ToolOutputDenied, ToolCallID: b.ToolCallID})
	case b.Status != event.ToolSuccess:
		m.keep("", Chunk{Type: ToolOutputError, ToolCallID: b.ToolCallID, ErrorText: cmp.Or(b.Summary, string(b.Status), "unknown")})
	case len(given) > 0:
		m.keep("", Chunk{Type: ToolOutputAvailable, ToolCallID: b.ToolCallID, Output: given})
	default:
		m.keep("", Chunk{Type: ToolOutputAvailable, ToolCallID: b.ToolCallID, Output: m.output(b, output)})
	}
}

// output returns what a client gets of a result: the content only if it may read the output of tools.
func (m *message) output(b event.ToolResult, content event.ToolOutput) json.RawMessage {
	r := result{Status: string(b.Status), Summary: b.Summary, ElapsedMS: b.ElapsedMS, Content: content.Content}
	if content.Ref != nil {
		r.ContentURL = objectURL(m.threadID, content.Ref)
	}
	for _, p := range b.Media {
		r.Media = append(r.Media, partOf(p, m.threadID))
	}
	return encode(r)
}

// printed shows what a tool prints while it runs.
func (m *message) printed(b event.ToolResult) {
	value := struct {
		ToolCallID string `json:"toolCallId"`
		Delta      string `json:"delta"`
	}{b.ToolCallID, b.Delta}
	m.emit(Chunk{Type: Data + string(event.NameToolOutput), Data: encode(value), Transient: true})
}

// data projects what the stream has no chunk for.
func (m *message) data(body event.Body) {
	switch b := body.(type) {
	case event.Plan:
		m.planned(b)
	case event.Custom:
		value := b.Data
		if len(value) == 0 {
			value = json.RawMessage("{}")
		}
		m.keep("", Chunk{Type: Data + b.Type, Data: value, ToolCallID: b.ToolCallID})
	case event.Notice, event.ContextCompressed:
		m.keep("", Chunk{Type: Data + string(body.Name()), Data: encode(body)})
	case event.Subagent:
		m.emit(Chunk{Type: Data + string(body.Name()), Data: encode(b), Transient: true})
	}
}

// planned shows the whole plan as one part of the message.
func (m *message) planned(b event.Plan) {
	if b.Stage == event.StageStart || len(b.Steps) > 0 {
		m.plan = slices.Concat([]event.PlanStep{}, b.Steps)
	}
	value := struct {
		Steps    []event.PlanStep `json:"steps"`
		Finished bool             `json:"finished"`
		Summary  string           `json:"summary,omitempty"`
	}{m.plan, b.Stage == event.StageStop, b.Summary}
	m.keep("", Chunk{Type: Data + string(event.NamePlan), ID: "plan", Data: encode(value)})
}

func steerID(steerID string, i int) string { return steerID + "-" + strconv.Itoa(i) }

// encode returns a value as JSON. Values are those of decoded events, which can be encoded.
func encode(value any) json.RawMessage {
	text, err := jsonv2.Marshal(value, options)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}
