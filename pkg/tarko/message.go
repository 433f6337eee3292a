package tarko

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// message is what the model says in one turn, as its blocks become known.
type message struct {
	count  int // messages that were begun in the request
	id     string
	open   bool      // increments under id may follow
	first  time.Time // when its first block started
	blocks []block   // of the turn, those that count, in the order of their starts
}

// block is a part of a message.
type block struct {
	id        string
	kind      event.Name
	startedAt time.Time
	endedAt   time.Time // zero while it is open
	text      string    // of prose, when it has ended
	callID    string
	tool      string
	args      jsontext.Value // of a call, when it has ended
	report    *FinalAnswer   // of a text that is one
}

func (m *message) find(blockID string) *block {
	for i := range m.blocks {
		if m.blocks[i].id == blockID {
			return &m.blocks[i]
		}
	}
	return nil
}

// text joins the texts of one kind.
func (m *message) text(kind event.Name) string {
	var all strings.Builder
	for _, b := range m.blocks {
		if b.kind == kind {
			all.WriteString(b.text)
		}
	}
	return all.String()
}

// textBlock follows a text or a thinking. Of b it takes the kind and the text.
func (p *Projector) textBlock(at event.Block, b block, delta string) {
	m := &p.run.message
	switch {
	case at.Stage == event.StageStart:
		p.startBlock(at.BlockID, b)
	case at.Stage == event.StageDelta && m.open:
		p.increment(b.kind, delta)
	case at.Stage == event.StageStop && at.Discarded:
		p.discard(at.BlockID)
	case at.Stage == event.StageStop:
		if open := m.find(at.BlockID); open != nil {
			open.text, open.endedAt = b.text, p.event.Time
			open.setReport(b.report)
		}
	}
}

// setReport takes over what the start of a final answer did not tell of it.
func (b *block) setReport(at *FinalAnswer) {
	if b.report != nil && at != nil {
		b.report.Title, b.report.Format = cmp.Or(at.Title, b.report.Title), cmp.Or(at.Format, b.report.Format)
		b.report.IsDeepResearch = b.report.IsDeepResearch || at.IsDeepResearch
	}
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

// startBlock adds a block to the message, and begins the message with its first one. A message that takes the place of
// another begins with what of that one counts.
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
	for _, b := range m.blocks {
		if b.kind == event.NameToolCall {
			p.addArguments(b, string(b.args), true)
			continue
		}
		p.increment(b.kind, b.text)
	}
}

// discard takes a block back. Text that readers have seen cannot be taken out of a message, so the message is given up
// with it, and the next block begins another.
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

// endIncrements ends the increments of a call that is still being written.
func (p *Projector) endIncrements(b block) {
	if b.kind == event.NameToolCall && b.endedAt.IsZero() && p.run.message.open {
		p.addArguments(b, "", true)
	}
}

// addRestartNotice tells people why the same text comes again.
func (p *Projector) addRestartNotice(messageID string) {
	details, _ := jsontext.AppendQuote([]byte(`{"messageId":`), messageID) // an id is plain text
	p.add(System{
		Level: LevelWarning, Message: "The agent was interrupted and begins this part of its answer again.",
		Details: append(details, '}'),
	})
}

// endTurn ends the message, when the model has said all of it, and tells which calls are about to run.
func (p *Projector) endTurn(b event.UsageSoFar) {
	r := &p.run
	calls := slices.DeleteFunc(slices.Clone(r.message.blocks), func(b block) bool { return b.kind != event.NameToolCall })
	r.turns = b.Turns
	if !r.message.open {
		p.startMessage() // a turn without a word, or one that was given up in part and had no more to say
	}
	p.endMessage(string(b.FinishReason), b)
	if b.FinishReason == event.FinishContentFilter {
		return // they never run
	}
	for _, c := range calls {
		p.add(ToolCall{
			ToolCallID: c.callID, Name: c.tool, Arguments: c.args, StartTime: p.event.Time.UnixMilli(), Tool: r.toolInfo(c.tool),
		})
	}
}

// endMessage tells the whole message, if there is any. Times that the runner did not measure are those between events.
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
	text := m.text(event.NameText)
	said := AssistantMessage{
		Content: text, RawContent: text, FinishReason: reason, MessageID: m.id,
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

// addThinking tells the whole reasoning of the message.
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
