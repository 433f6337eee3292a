package check

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// line is an event of a log, with the frame that brought it.
type line struct {
	n     uint64
	epoch uint64
	body  event.Body
}

// lines decodes a log. What cannot be decoded is left out: I2 reports it.
func (l *Log) lines() []line {
	if l == nil {
		return nil
	}
	var all []line
	for _, f := range l.Frames {
		for one := range f.Each() {
			if e, err := event.Decode(one.JSON); err == nil {
				all = append(all, line{one.N, f.Epoch, e.Body})
			}
		}
	}
	return all
}

// block is a block of an answer as the events of its log make it up.
type block struct {
	id        string
	index     int
	epoch     uint64 // that started it
	start     uint64 // n of its first event
	deltas    int
	partial   strings.Builder
	stops     int
	discarded bool
	reason    string
	signed    bool
	inside    bool                   // a call that the agent runs by itself
	gate      event.ContinuationKind // of a call
	content   event.Content          // as the stop has it
}

// kept reports whether the block counts.
func (b *block) kept() bool {
	if b.stops == 0 || b.discarded {
		return false
	}
	c := b.content
	return b.signed || c.Text+c.Thinking != "" || c.Type == event.ContentToolUse || c.Type == event.ContentToolResult
}

// blockEvent is what one event says of a block.
type blockEvent struct {
	event.Block
	delta   string
	signed  bool
	inside  bool
	gate    event.ContinuationKind
	content event.Content
}

// blockEventOf returns what an event says of a block; false when it is of none.
func blockEventOf(body event.Body) (blockEvent, bool) {
	switch b := body.(type) {
	case event.Text:
		return blockEvent{Block: b.Block, delta: b.Delta, content: event.Content{Type: event.ContentText, Text: b.Text}}, true
	case event.FinalAnswer:
		return blockEvent{Block: b.Block, delta: b.Delta, content: event.Content{Type: event.ContentText, Text: b.Content}}, true
	case event.Thinking:
		c := event.Content{Type: event.ContentThinking, Thinking: b.Thinking}
		return blockEvent{Block: b.Block, delta: b.Delta, signed: b.Signature != "", content: c}, true
	case event.ToolCall:
		c := event.Content{Type: event.ContentToolUse, ToolCallID: b.ToolCallID, Name: b.Tool, Args: b.Args}
		return blockEvent{Block: b.Block, delta: b.Delta, inside: b.ByAgent, gate: b.Gate, content: c}, true
	case event.ToolResult:
		return blockEvent{Block: b.Block, delta: b.Delta, content: event.Content{
			Type: event.ContentToolResult, ToolCallID: b.ToolCallID, Name: b.Tool, Status: b.Status, Summary: b.Summary, Media: b.Media,
		}}, true
	default:
		return blockEvent{}, false
	}
}

// fold is the blocks of one log.
type fold struct {
	id     ID
	blocks map[string]*block
	order  []*block        // as they started
	inside map[string]bool // calls that the agent runs by itself: their results continue after a takeover
	found  []Violation
}

// foldOf puts the blocks of a log together, and notes what breaks their pattern.
func foldOf(id ID, all []line) *fold {
	f := &fold{id: id, blocks: map[string]*block{}, inside: map[string]bool{}}
	for _, one := range all {
		if p, ok := blockEventOf(one.body); ok {
			f.add(one, p)
		}
	}
	return f
}

func (f *fold) report(format string, args ...any) {
	f.found = append(f.found, violation(f.id, format, args...))
}

func (f *fold) add(at line, p blockEvent) {
	b := f.blocks[p.BlockID]
	switch {
	case p.Stage == event.StageStart:
		f.start(at, p)
	case b == nil:
		f.report("event %d is the %s of block %s, which has not started", at.n, p.Stage, p.BlockID)
	case p.Stage == event.StageDelta:
		f.delta(at, b, p)
	case p.Stage == event.StageStop:
		f.stop(at, b, p)
	default:
		f.report("event %d of block %s has the stage %q", at.n, p.BlockID, p.Stage)
	}
}

func (f *fold) start(at line, p blockEvent) {
	if f.blocks[p.BlockID] != nil {
		f.report("event %d starts block %s for the second time", at.n, p.BlockID)
		return
	}
	if p.BlockIndex == nil || *p.BlockIndex != len(f.order) {
		f.report("event %d starts block %s, which is not block %d as its place says", at.n, p.BlockID, len(f.order))
	}
	for _, other := range f.order {
		if other.stops == 0 && other.epoch < at.epoch && !f.goesOn(other) {
			f.report("event %d of epoch %d starts block %s, and block %s of epoch %d is still open",
				at.n, at.epoch, p.BlockID, other.id, other.epoch)
		}
	}
	b := &block{id: p.BlockID, index: len(f.order), epoch: at.epoch, start: at.n, content: p.content}
	f.blocks[b.id], f.order = b, append(f.order, b)
}

func (f *fold) delta(at line, b *block, p blockEvent) {
	switch {
	case b.stops > 0:
		f.report("event %d adds to block %s, which has stopped", at.n, b.id)
	case at.epoch != b.epoch && !f.goesOn(b):
		f.report("event %d of epoch %d adds to block %s of epoch %d", at.n, at.epoch, b.id, b.epoch)
	case p.DeltaIndex == nil || *p.DeltaIndex != b.deltas:
		f.report("event %d is not delta %d of block %s, which is next", at.n, b.deltas, b.id)
	}
	b.deltas++
	b.partial.WriteString(p.delta)
}

// goesOn reports whether a block is the result of a call that its agent runs by itself: that does not end with its runner.
func (f *fold) goesOn(b *block) bool {
	return b.content.Type == event.ContentToolResult && f.inside[b.content.ToolCallID]
}

// stop ends a block. One that had stopped may be discarded later, once: its turn came out otherwise after a takeover.
func (f *fold) stop(at line, b *block, p blockEvent) {
	if b.stops > 0 && (!p.Discarded || b.discarded) {
		f.report("event %d stops block %s for the second time", at.n, b.id)
	}
	b.stops++
	if p.Discarded {
		b.discarded = true
		return
	}
	f.inside[p.content.ToolCallID] = f.inside[p.content.ToolCallID] || p.inside
	b.content, b.reason, b.signed, b.inside, b.gate = p.content, p.Reason, p.signed, p.inside, p.gate
	streamed, c := b.partial.String(), p.content
	switch {
	case c.Type == event.ContentToolUse && b.reason == "":
		if canonical(json.RawMessage(streamed)) != canonical(c.Args) {
			f.report("block %s stops with the arguments %.80s, and its deltas were %.80s", b.id, c.Args, streamed)
		}
	case c.Type == event.ContentText || c.Type == event.ContentThinking:
		if whole := c.Text + c.Thinking; whole != streamed {
			f.report("block %s stops with %d bytes %.80q, and its deltas were %d bytes %.80q", b.id, len(whole), whole, len(streamed), streamed)
		}
	}
}

// kept lists the blocks that count, in the order of their places.
func (f *fold) kept() []*block {
	var all []*block
	for _, b := range f.order {
		if b.kept() {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b *block) int { return cmp.Compare(a.index, b.index) })
	return all
}

// canonical returns JSON in a comparable form. Text that is not JSON is returned unchanged.
func canonical(value json.RawMessage) string {
	value = slices.Clone(value)
	if (*jsontext.Value)(&value).Canonicalize() != nil {
		return "not JSON: " + string(value)
	}
	return string(value)
}

// stages is I14.
func (r *Run) stages() []Violation {
	return r.each(func(id ID, l *Log) []Violation {
		f := foldOf(id, l.lines())
		terminal := l.Terminal()
		for _, b := range f.order {
			if terminal != "" && b.stops == 0 {
				f.report("it ended, and block %s is open", b.id)
			}
			if terminal == event.NameDone && b.kept() && b.reason != "" && b.reason != "invalid_arguments" {
				f.report("it is done, and block %s counts, which was cut: %s", b.id, b.reason)
			}
		}
		return f.found
	})
}
