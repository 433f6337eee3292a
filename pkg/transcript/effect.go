package transcript

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// State of the log other than the answer, which a runner that repeats a step must not write twice.

// Plan is the newest event of the thread's plan; the zero value without one. A plan is active until its last event is a
// stop.
func (s *State) Plan() event.Plan { return s.plan }

// Customs counts the custom events of a call that has no output yet, since its last action.
func (s *State) Customs(callID string) int { return s.customs[callID] }

// Emitted gives the custom events of a turn that has not ended.
func (s *State) Emitted() []event.Custom { return slices.Clone(s.request.customs) }

// Described reports whether the request's log says what a tool is.
func (s *State) Described(tool string) bool { return slices.Contains(s.request.described, tool) }

func (s *State) custom(b event.Custom) {
	if b.ToolCallID == "" {
		s.request.customs = append(s.request.customs, b)
		return
	}
	if s.customs == nil {
		s.customs = make(map[string]int)
	}
	s.customs[b.ToolCallID]++
}

func (s *State) describe(b event.ToolCall) {
	if b.Description != "" || b.Schema != nil {
		s.request.described = append(s.request.described, b.Tool)
	}
}
