package wire

import "github.com/agentbus/agentbus/pkg/event"

// Replay collects the messages of a thread from the events of its requests, in their order. The zero value is ready to use.
type Replay struct {
	run  *run
	said conversation
}

// Add adds the next event.
func (h *Replay) Add(e event.Event) {
	if h.run == nil || h.run.requestID != e.RequestID {
		h.run = newRun()
	}
	for _, one := range h.run.project(e) {
		h.said.apply(one)
	}
}

// Messages returns the newest messages, at most limit of them.
func (h *Replay) Messages(limit int) []Message {
	all := h.said.snapshot()
	return all[max(0, len(all)-limit):]
}
