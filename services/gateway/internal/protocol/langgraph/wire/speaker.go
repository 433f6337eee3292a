package wire

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// speaker turns the blocks of a log into the messages channel of the thread protocol. The blocks of a message must not interleave
// there: what comes for a later block waits for the end of the one before it.
type speaker struct {
	id     string // of the open message; "" = none
	blocks []*spoken
	begun  int // blocks
	out    []any
}

// spoken is a block of the open message.
type spoken struct {
	id      string
	kind    event.Name
	call    string // the id of a call
	name    string // of its tool
	text    []byte // all of it
	sent    int    // bytes of text that are written
	args    []byte // the whole arguments of a call that is complete
	begun   bool
	done    bool
	dropped bool
	index   int
}

// take returns what an event adds. The state has it.
func (s *speaker) take(e event.Event, now *state) []any {
	s.out = nil
	switch b := e.Body.(type) {
	case event.Text:
		s.block(b.Block, event.NameText, now).add(b.Block, b.Delta, b.Text)
	case event.FinalAnswer:
		s.block(b.Block, event.NameText, now).add(b.Block, b.Delta, b.Content)
	case event.Thinking:
		s.block(b.Block, event.NameThinking, now).add(b.Block, b.Delta, b.Thinking)
	case event.ToolCall:
		one := s.block(b.Block, event.NameToolCall, now)
		one.call = b.ToolCallID
		if b.Tool != "" {
			one.name = b.Tool
		}
		if b.Stage == event.StageStop {
			one.args = b.Args
		}
		one.add(b.Block, b.Delta, string(b.Args))
	case event.UsageSoFar:
		s.finish(now)
	case event.ToolResult:
		if b.Stage == event.StageStop {
			s.finish(now)
		}
	case event.Input, event.Continuation, event.Done, event.Error, event.Aborted:
		s.finish(now)
	}
	s.flush()
	return s.out
}

// block returns the block of an event. The first one of another message begins that.
func (s *speaker) block(b event.Block, kind event.Name, now *state) *spoken {
	id := s.id
	if now.draft != nil {
		id = now.draft.id
	}
	if s.id != id {
		s.finish(now)
		s.id = id
		s.emit("message-start", map[string]any{
			"role": "ai", "id": id, "metadata": map[string]any{"run_id": now.requestID, "thread_id": now.threadID},
		})
	}
	i := slices.IndexFunc(s.blocks, func(o *spoken) bool { return o.id == b.BlockID })
	if i < 0 {
		i = len(s.blocks)
		s.blocks = append(s.blocks, &spoken{id: b.BlockID, kind: kind})
	}
	return s.blocks[i]
}

// add adds a delta, or the whole text of a block without deltas.
func (o *spoken) add(b event.Block, delta, whole string) {
	switch b.Stage {
	case event.StageDelta:
		o.text = append(o.text, delta...)
	case event.StageStop:
		o.done, o.dropped = true, b.Discarded
		if len(o.text) == 0 && !b.Discarded {
			o.text = []byte(whole)
		}
	case event.StageStart:
	}
}

// flush writes the open block as far as it is known, and those after it once it is complete.
func (s *speaker) flush() {
	for len(s.blocks) > 0 {
		one := s.blocks[0]
		ready := len(one.text) > 0
		if one.kind == event.NameToolCall {
			ready = one.name != "" && !one.dropped
		}
		if ready && !one.begun {
			one.begun, one.index = true, s.begun
			s.begun++
			s.emit("content-block-start", map[string]any{"index": one.index, "content": one.content(false)})
		}
		if one.begun && one.sent < len(one.text) {
			s.emit("content-block-delta", map[string]any{"index": one.index, "delta": one.delta()})
			one.sent = len(one.text)
		}
		if !one.done {
			return
		}
		if one.begun {
			s.emit("content-block-finish", map[string]any{"index": one.index, "content": one.content(true)})
		}
		s.blocks = s.blocks[1:]
	}
}

func (o *spoken) delta() map[string]any {
	text := string(o.text[o.sent:])
	switch o.kind {
	case event.NameToolCall:
		return map[string]any{"type": "tool-call-delta", "args": text}
	case event.NameThinking:
		return map[string]any{"type": "reasoning-delta", "reasoning": text}
	default:
		return map[string]any{"type": "text-delta", "text": text}
	}
}

// content returns the block at its start or, whole, at its end.
func (o *spoken) content(whole bool) map[string]any {
	text := ""
	if whole {
		text = string(o.text)
	}
	switch {
	case o.kind == event.NameToolCall && whole:
		return contentOrInvalid(o.call, o.name, o.args, o.text)
	case o.kind == event.NameToolCall:
		return map[string]any{"type": "tool_call_chunk", "id": o.call, "name": o.name, "args": ""}
	case o.kind == event.NameThinking:
		return map[string]any{"type": "reasoning", "reasoning": text}
	default:
		return map[string]any{"type": "text", "text": text}
	}
}

// finish ends the open message, with its usage if the state has it.
func (s *speaker) finish(now *state) {
	if s.id == "" {
		return
	}
	for _, one := range s.blocks {
		one.done = true
	}
	s.flush()
	end := map[string]any{}
	for _, m := range slices.Backward(now.messages) {
		if m.ID == s.id {
			if m.Usage != nil {
				end["usage"] = m.Usage
			}
			break
		}
	}
	s.emit("message-finish", end)
	s.id, s.blocks, s.begun = "", nil, 0
}

// emit adds an event of the channel.
func (s *speaker) emit(name string, data map[string]any) {
	data["event"] = name
	s.out = append(s.out, data)
}
