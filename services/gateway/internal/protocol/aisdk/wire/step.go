package wire

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// step is a turn of the model, and the results of its calls. If a runner dies in a turn, the next one discards blocks of it.
// A client can remove all parts of a step, but no single one: the parts that count are then written again.
type step struct {
	open   bool
	over   bool // the turn has ended: the next block begins a step
	client bool // it has calls that the client runs
	agents bool // it has the actions of agents that were called
	kept   []kept
}

// kept is a chunk of a finished part of the step.
type kept struct {
	block string
	chunk Chunk
}

func (s *step) keep(block string, c Chunk) {
	if s.open {
		s.kept = append(s.kept, kept{block, c})
	}
}

// beginStep begins a step, unless the turn of the open one has not ended.
func (m *message) beginStep() {
	if m.step.open && !m.step.over {
		return
	}
	m.endStep()
	m.step = step{open: true}
	m.emit(Chunk{Type: StartStep})
}

func (m *message) endStep() {
	if m.step.open {
		m.emit(Chunk{Type: FinishStep})
	}
	m.step = step{client: m.step.client}
}

// discard removes a block of the step. Other open parts are removed with it, and written by their stops.
func (m *message) discard(block string) {
	p := m.find(block)
	count := len(m.step.kept)
	m.step.kept = slices.DeleteFunc(m.step.kept, func(k kept) bool { return k.block == block })
	if p != nil {
		m.close(p)
	}
	if p == nil && len(m.step.kept) == count || p != nil && p.lost {
		return // it has not been written
	}
	for _, other := range m.open {
		other.lost = true
	}
	m.emit(Chunk{Type: ResetStep})
	for _, k := range m.step.kept {
		m.emit(k.chunk)
	}
}

// blockOf returns the name of a block in its log.
func blockOf(b event.Block) string { return b.MessageID + "-" + b.BlockID }
