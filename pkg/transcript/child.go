package transcript

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// childRequest is the known state of a child request.
type childRequest struct {
	next  uint64 // place in its log of the first event that is not known
	ended bool
	usage event.Usage // its own, and that of all below it
	below map[string]*childRequest
}

// nest folds an event of a child request into the state of all of them, and returns the usage that it adds.
func nest(all *map[string]*childRequest, b event.Subagent) event.Usage {
	inner, err := event.Decode(b.Inner)
	if err != nil {
		return event.Usage{} // no reader could decode it
	}
	if *all == nil {
		*all = make(map[string]*childRequest)
	}
	one := (*all)[inner.RequestID]
	if one == nil {
		one = new(childRequest)
		(*all)[inner.RequestID] = one
	}
	before := one.usage
	one.fold(inner)
	return one.usage.Sub(before)
}

func (u *childRequest) fold(e event.Event) {
	if _, n, err := event.ParseCursor(string(e.ID)); err == nil {
		u.next = max(u.next, n+1)
	}
	u.ended = u.ended || event.IsTerminal(e.Body)
	switch b := e.Body.(type) {
	case event.UsageSoFar:
		u.usage = b.Usage
	case event.Done:
		u.usage = b.Usage
	case event.Error:
		u.count(b.Usage)
	case event.Aborted:
		u.count(b.Usage)
	case event.Subagent:
		u.usage = u.usage.Add(nest(&u.below, b))
	default: // has no usage
	}
}

func (u *childRequest) count(usage *event.Usage) {
	if usage != nil {
		u.usage = *usage
	}
}

// ChildProgress returns the number of the next event of a child request, and whether the child has ended.
func (s *State) ChildProgress(requestID string) (next uint64, ended bool) {
	if one := s.request.below[requestID]; one != nil {
		return one.next, one.ended
	}
	return 0, false
}

// Try is a call that the newest request has tried to run.
type Try struct{ CallID, Tool string }

// Tried lists the calls that the newest request has tried to run, whatever came of them.
func (s *State) Tried() []Try { return slices.Clone(s.request.tried) }

func (s *State) try(b event.ToolResult) {
	t := Try{b.ToolCallID, b.Tool}
	if b.Stage == event.StageStart && !slices.Contains(s.request.tried, t) {
		s.request.tried = append(s.request.tried, t)
	}
}
