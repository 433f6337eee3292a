package loop

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/go-json-experiment/json/jsontext"
)

// begin starts d, unless it may repeat a block that a crashed runner finished.
func (s *turnWriter) begin(d *draft) error {
	if len(s.finished) > 0 && s.finished[0].Kind == d.kind && s.finished[0].Tool == d.tool && s.finished[0].CallID == d.callID {
		d.matched = &s.finished[0]
		s.finished = s.finished[1:]
		return nil
	}
	if err := s.discard(); err != nil {
		return err
	}
	return s.start(d)
}

func (s *turnWriter) start(d *draft) (err error) {
	d.blockID, err = s.run.events.open(func(b event.Block) event.Body {
		switch d.kind {
		case event.NameThinking:
			return event.Thinking{Block: b}
		case event.NameToolCall:
			return event.ToolCall{Block: b, ToolCallID: d.callID, Tool: d.tool, Gate: d.gate}
		case event.NameFinalAnswer:
			return event.FinalAnswer{Block: b, Title: d.report.title, Format: d.report.format, Kind: d.report.kind}
		default:
			return event.Text{Block: b}
		}
	})
	return err
}

// add appends text to d, and writes it unless d still matches a finished block. Arguments may have different white
// space, so those of a call are compared at its end.
func (s *turnWriter) add(d *draft, text string) error {
	d.size += len(text)
	if d.matched == nil {
		return s.write(d, text)
	}
	d.held = append(d.held, text...)
	if d.kind == event.NameToolCall || strings.HasPrefix(d.matched.Text, string(d.held)) {
		return nil
	}
	return s.diverge(d)
}

func (s *turnWriter) write(d *draft, text string) error {
	j := &s.run.events
	at := j.delta(d.blockID, d.deltas)
	d.deltas++
	switch d.kind {
	case event.NameThinking:
		return j.emit(event.Thinking{Block: at, Delta: text})
	case event.NameToolCall:
		return j.emit(event.ToolCall{Block: at, ToolCallID: d.callID, Delta: text})
	case event.NameFinalAnswer:
		return j.emit(event.FinalAnswer{Block: at, Delta: text})
	default:
		return j.emit(event.Text{Block: at, Delta: text})
	}
}

// diverge discards the block that d matched so far and all later ones, and writes d instead.
func (s *turnWriter) diverge(d *draft) error {
	old := d.matched
	d.matched = nil
	if err := s.run.events.discard(*old, reasonSuperseded); err != nil {
		return err
	}
	if err := s.discard(); err != nil {
		return err
	}
	if err := s.start(d); err != nil {
		return err
	}
	if len(d.held) == 0 {
		return nil
	}
	return s.write(d, string(d.held))
}

// discard discards the finished blocks that the turn has not repeated.
func (s *turnWriter) discard() error {
	for _, b := range s.finished {
		if err := s.run.events.discard(b, reasonSuperseded); err != nil {
			return err
		}
	}
	s.finished = nil
	return nil
}

// same reports whether two values are the same JSON.
func same(a, b json.RawMessage) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	return (*jsontext.Value)(&a).Canonicalize() == nil && (*jsontext.Value)(&b).Canonicalize() == nil && bytes.Equal(a, b)
}

// Reasons in the stops of discarded blocks.
const (
	reasonSuperseded = "superseded"
	reasonAborted    = "aborted"
	reasonError      = "error"
	reasonUnknown    = "unknown"
)

// discardOpen ends the blocks that a crashed runner left open, except the results of tools that the agent keeps
// running.
func (j *eventWriter) discardOpen() error {
	if weaken.Without(weaken.DiscardOpen) {
		return nil
	}
	running := j.state.Running()
	for _, b := range j.state.Open() {
		if slices.ContainsFunc(running, func(r transcript.Running) bool { return r.ID == b.ID }) {
			continue
		}
		if err := j.endAbandoned(b); err != nil {
			return err
		}
	}
	return nil
}

// endAbandoned ends one of them: a call result that is stored counts, a tool that the agent ran by itself ended with the
// runner, and all other blocks are discarded.
func (j *eventWriter) endAbandoned(b transcript.Block) error {
	output, ok := j.state.Output(b.CallID)
	switch {
	case b.Kind != event.NameToolResult:
	case ok:
		return j.emit(event.ToolResult{
			Block: j.stop(b.ID), ToolCallID: b.CallID, Tool: b.Tool, Status: output.Status, Media: output.Media,
		})
	case j.state.ByAgent(b.CallID):
		return j.result(b.CallID, b.Tool, b.ID, interruptedTool(), nil, 0)
	}
	return j.discard(b, reasonSuperseded)
}

// interruptedTool is the output of an agent's tool that ended with the runner.
func interruptedTool() Output {
	text := "the agent was interrupted before the tool ended; it may have had an effect"
	return Output{Status: event.ToolUnknown, Content: text, Summary: text}
}

// discard writes the stop of a block that does not count.
func (j *eventWriter) discard(b transcript.Block, reason string) error {
	stop := j.stop(b.ID)
	stop.Discarded, stop.Reason = true, reason
	switch b.Kind {
	case event.NameThinking:
		return j.emit(event.Thinking{Block: stop})
	case event.NameToolCall:
		return j.emit(event.ToolCall{Block: stop, ToolCallID: b.CallID, Tool: b.Tool})
	case event.NameToolResult:
		return j.emit(event.ToolResult{Block: stop, ToolCallID: b.CallID, Tool: b.Tool})
	case event.NameFinalAnswer:
		return j.emit(event.FinalAnswer{Block: stop})
	default:
		return j.emit(event.Text{Block: stop})
	}
}
