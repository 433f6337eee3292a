package tarko

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// message is the message of one turn, as far as it has been read.
type message struct {
	count  int // number of messages started in the request
	id     string
	open   bool      // more increments under id may follow
	first  time.Time // when its first block started
	blocks []block   // blocks of the turn that are not discarded, in the order of their starts
}

// block is a part of a message.
type block struct {
	id        string
	kind      event.Name
	startedAt time.Time
	endedAt   time.Time // zero while the block is open
	text      string    // of a text or thinking, set at its end
	callID    string
	tool      string
	args      json.RawMessage // of a call, set at its end
	report    *FinalAnswer    // set if the text is a final answer
	sent      bool            // an increment of the text was added
}

func (m *message) find(blockID string) *block {
	for i := range m.blocks {
		if m.blocks[i].id == blockID {
			return &m.blocks[i]
		}
	}
	return nil
}

// text concatenates the texts of one kind. A final answer is a paragraph of its own.
func (m *message) text(kind event.Name) string {
	var all strings.Builder
	for i, b := range m.blocks {
		if b.kind == kind && b.text != "" {
			all.WriteString(m.gap(i) + b.text)
		}
	}
	return all.String()
}

// rawText concatenates the texts as the model wrote them.
func (m *message) rawText() string {
	var all strings.Builder
	for _, b := range m.blocks {
		if b.kind == event.NameText {
			all.WriteString(b.text)
		}
	}
	return all.String()
}

// gap returns what separates block i from the text before it: an empty line on both sides of a final answer, because
// Markdown recognises a heading only at the start of a line.
func (m *message) gap(i int) string {
	if m.blocks[i].kind != event.NameText {
		return ""
	}
	for k := i - 1; k >= 0; k-- {
		before := m.blocks[k]
		if before.kind != event.NameText || before.text == "" {
			continue
		}
		if before.report != nil || m.blocks[i].report != nil {
			return "\n\n"
		}
		return ""
	}
	return ""
}

// textBlock projects a text or thinking. It uses the kind and the text of b.
func (p *Projector) textBlock(at event.Block, b block, delta string) {
	m := &p.run.message
	switch {
	case at.Stage == event.StageStart:
		p.startBlock(at.BlockID, b)
	case at.Stage == event.StageDelta && m.open:
		p.incrementOf(at.BlockID, b.kind, delta)
	case at.Stage == event.StageStop && at.Discarded:
		p.discard(at.BlockID)
	case at.Stage == event.StageStop:
		if open := m.find(at.BlockID); open != nil {
			open.text, open.endedAt = b.text, p.event.Time
			open.setReport(b.report)
		}
	}
}

// setReport sets the fields of a final answer that its start did not contain.
func (b *block) setReport(at *FinalAnswer) {
	if b.report != nil && at != nil {
		b.report.Title, b.report.Format = cmp.Or(at.Title, b.report.Title), cmp.Or(at.Format, b.report.Format)
		b.report.IsDeepResearch = b.report.IsDeepResearch || at.IsDeepResearch
	}
}

// incrementOf adds an increment of a block. The first one begins with the gap before the block.
func (p *Projector) incrementOf(blockID string, kind event.Name, delta string) {
	m := &p.run.message
	for i := range m.blocks {
		if b := &m.blocks[i]; b.id == blockID && !b.sent && delta != "" {
			b.sent = true
			delta = m.gap(i) + delta
		}
	}
	p.increment(kind, delta)
}

func (p *Projector) increment(kind event.Name, text string) {
	if text == "" {
		return
	}
	if kind == event.NameThinking {
		p.add(AssistantStreamingThinkingMessage{Content: text, MessageID: p.run.message.id})
		return
	}
	p.add(AssistantStreamingMessage{Content: text, MessageID: p.run.message.id})
}

// startBlock adds a block to the message, and starts a message with its first block. A message that replaces another
// one starts with the blocks of that message which are still valid.
func (p *Projector) startBlock(blockID string, b block) {
	m := &p.run.message
	if !m.open {
		p.startMessage()
	}
	b.id, b.startedAt = blockID, p.event.Time
	m.blocks = append(m.blocks, b)
}

func (p *Projector) startMessage() {
	m := &p.run.message
	m.open, m.count = true, m.count+1
	m.id = p.run.id + "-msg" + strconv.Itoa(m.count)
	if len(m.blocks) == 0 {
		m.first = p.event.Time
	}
	p.add(AssistantMessageStart{Role: "assistant", MessageID: m.id})
	for i := range m.blocks {
		b := &m.blocks[i]
		if b.kind == event.NameToolCall {
			p.addArguments(*b, string(b.args), true)
			continue
		}
		b.sent = false // under this id
		p.incrementOf(b.id, b.kind, b.text)
	}
}

// discard removes a block. Text that clients have received cannot be removed from a message, so the message ends
// incomplete, and the next block starts another one.
func (p *Projector) discard(blockID string) {
	m := &p.run.message
	b := m.find(blockID)
	if b == nil {
		return
	}
	gone := *b
	if gone.kind == event.NameToolCall {
		p.endIncrements(gone)
	}
	m.blocks = slices.DeleteFunc(m.blocks, func(b block) bool { return b.id == blockID })
	if gone.kind == event.NameToolCall || !m.open {
		return
	}
	for _, b := range m.blocks {
		p.endIncrements(b)
	}
	p.add(AssistantStreamingMessage{IsComplete: true, MessageID: m.id})
	p.addRestartNotice(m.id)
	m.open = false
}

// endIncrements ends the increments of a call whose arguments are incomplete.
func (p *Projector) endIncrements(b block) {
	if b.kind == event.NameToolCall && b.endedAt.IsZero() && p.run.message.open {
		p.addArguments(b, "", true)
	}
}

// addRestartNotice adds a notice that explains why the same text is sent again.
func (p *Projector) addRestartNotice(messageID string) {
	details, _ := jsontext.AppendQuote([]byte(`{"messageId":`), messageID) // an id is plain text
	p.add(System{
		Level: LevelWarning, Message: "The agent was interrupted and begins this part of its answer again.",
		Details: append(details, '}'),
	})
}

// endTurn ends the message and adds the calls that are about to run.
func (p *Projector) endTurn(b event.UsageSoFar) {
	r := &p.run
	calls := slices.DeleteFunc(slices.Clone(r.message.blocks), func(b block) bool { return b.kind != event.NameToolCall })
	r.turns = b.Turns
	if !r.message.open {
		p.startMessage() // a turn without content, or one whose message was discarded and not replaced
	}
	p.endMessage(string(b.FinishReason), b)
	if b.FinishReason == event.FinishContentFilter || b.FinishReason == event.FinishRefusal {
		return // the calls do not run
	}
	for _, c := range calls {
		p.add(ToolCall{
			ToolCallID: c.callID, Name: c.tool, Arguments: c.args, StartTime: p.event.Time.UnixMilli(), Tool: r.toolInfo(c.tool),
		})
	}
}

// endMessage adds the complete message, if there is one. Times that the runner did not measure are computed from the
// times of the events.
func (p *Projector) endMessage(reason string, measured event.UsageSoFar) {
	r := &p.run
	m := &r.message
	if !m.open && len(m.blocks) == 0 {
		return
	}
	if !m.open {
		p.startMessage()
	}
	p.addThinking()
	p.addReports(reason == FinishAbort || reason == FinishError)
	said := AssistantMessage{
		Content: m.text(event.NameText), RawContent: m.rawText(), FinishReason: reason, MessageID: m.id,
		TTFTMs: measured.TTFTMS, TTLTMs: measured.ElapsedMS,
	}
	if said.TTLTMs == 0 {
		said.TTFTMs, said.TTLTMs = since(r.turnStart, m.first), since(r.turnStart, p.event.Time)
	}
	said.ElapsedMs = said.TTLTMs
	for _, b := range m.blocks {
		if b.kind == event.NameToolCall && !b.endedAt.IsZero() {
			said.ToolCalls = append(said.ToolCalls, MessageToolCall{
				ID: b.callID, Type: "function", Function: FunctionText{Name: b.tool, Arguments: string(b.args)},
			})
		}
	}
	p.add(said)
	r.turnStart = p.event.Time
	r.message = message{count: m.count}
}

// addThinking adds the complete thinking of the message.
func (p *Projector) addThinking() {
	m := &p.run.message
	content := m.text(event.NameThinking)
	if content == "" {
		return
	}
	var spent int64
	for _, b := range m.blocks {
		if b.kind == event.NameThinking {
			spent += since(b.startedAt, b.endedAt)
		}
	}
	p.add(AssistantThinkingMessage{Content: content, IsComplete: true, ThinkingDurationMs: spent, MessageID: m.id})
}
