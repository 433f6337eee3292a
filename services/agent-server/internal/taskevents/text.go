package taskevents

import (
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// text is what clients see of the text of a turn. A turn that a process has left is run again by the next one, and its
// text comes again. The protocol of tasks cannot take text back, so what clients have seen is not sent a second time.
type text struct {
	finished string // text of the blocks that have ended since the newest event without text
	again    string // text that clients have seen of a block that a process left open, and that has not come again
	held     string // the part that has come again
}

// Resume continues a task that another process has left. Shown is the text that clients have seen since the newest event
// without text. Text that comes again is then sent as far as clients have not seen it; where the agent says something else
// the second time, clients get all of that.
func (t *Converter) Resume(shown string) {
	if open, ok := strings.CutPrefix(shown, t.text.finished); ok {
		t.text.again = open
	}
}

// take takes an event of a block of text. Whole is all of the block, at its end.
func (t *text) take(b event.Block, delta, whole string) []remoteagent.Body {
	switch {
	case b.Stage == event.StageDelta && delta != "":
		return t.delta(delta)
	case b.Stage == event.StageStop && !b.Discarded:
		t.finished += whole
		if t.held != "" { // it is shorter this time
			return t.differs("")
		}
	}
	return nil
}

func (t *text) delta(delta string) []remoteagent.Body {
	if rest, ok := strings.CutPrefix(t.again, delta); ok {
		t.again, t.held = rest, t.held+delta
		if rest == "" {
			t.held = ""
		}
		return nil
	}
	if rest, ok := strings.CutPrefix(delta, t.again); ok {
		t.again, t.held = "", ""
		return []remoteagent.Body{remoteagent.TextDelta{Text: rest}}
	}
	return t.differs(delta)
}

// differs sends what came again so far, and delta.
func (t *text) differs(delta string) []remoteagent.Body {
	whole := t.held + delta
	t.again, t.held = "", ""
	return []remoteagent.Body{remoteagent.TextDelta{Text: whole}}
}
