package check

import (
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// The rare paths of agents that call agents.
const (
	PathCalled     = "agent called by an agent"
	PathNested     = "agent called by an agent that was called"
	PathAskedBelow = "approval asked for by an agent that was called"
	PathCutBelow   = "agent aborted with its caller"
)

// copied is an event of another request, as the log of its caller shows it.
type copied struct {
	n   uint64 // in its own log
	sum oplog.Sum
}

// trees is I18. That every request of a tree ends, and ends once, is I1.
func (r *Run) trees() []Violation {
	calls, copies := r.asked(), r.copies()
	byCall := map[[2]string]ID{}
	return r.each(func(id ID, l *Log) []Violation {
		if l.Accepted == nil || l.Accepted.Caller == nil {
			return nil
		}
		var found []Violation
		c := l.Accepted.Caller
		above := ID{id.Tenant, c.RequestID}
		caller := r.Logs[above]
		if caller == nil || caller.Accepted == nil {
			return []Violation{violation(id, "it was called by %s, which has no record", c.RequestID)}
		}
		if call, ok := calls[c.ToolCallID]; !ok || call.tool != "agent__"+l.Accepted.AgentID {
			found = append(found, violation(id, "no log has the call %s of agent %s", c.ToolCallID, l.Accepted.AgentID))
		}
		key := [2]string{c.RequestID, c.ToolCallID}
		if other, ok := byCall[key]; ok {
			found = append(found, violation(id, "call %s of %s has made %s as well", c.ToolCallID, c.RequestID, other.Name))
		}
		byCall[key] = id
		if end := caller.Last(); caller.Terminal() != "" && l.Last().Sequence > end.Sequence && l.Abort == nil {
			found = append(found, violation(id, "its caller %s ended before it, and it was not aborted", c.RequestID))
		}
		shown := copies[id]
		if shown == nil {
			shown = map[ID][]copied{}
		}
		if _, ok := shown[above]; !ok { // the caller must show it, even where nothing of it is shown anywhere
			shown[above] = nil
		}
		for _, by := range sorted(shown) {
			found = append(found, r.mirrored(id, by, shown[by], by == above && resultOf(caller, c.ToolCallID) == event.ToolSuccess)...)
		}
		return found
	})
}

// mirrored checks that a caller shows the events of a request in order and without a gap, all of them when the call has
// succeeded.
func (r *Run) mirrored(id, by ID, copies []copied, succeeded bool) []Violation {
	whole := r.relayed(id)
	for i, c := range copies {
		if i >= len(whole) || c.n != whole[i].N || c.sum != whole[i].Sum {
			return []Violation{violation(id, "%s shows event %d (%s) of it at place %d, and its log has %s",
				by.Name, c.n, c.sum, i, placeOf(whole, i))}
		}
	}
	if succeeded && len(copies) < len(whole) {
		return []Violation{violation(id, "%s has its result, and shows %d of %d events", by.Name, len(copies), len(whole))}
	}
	return nil
}

// placeOf describes the event that should be at a place.
func placeOf(whole []oplog.Seen, i int) string {
	if i >= len(whole) {
		return "no more"
	}
	return violation(ID{}, "%d %s (%s)", whole[i].N, whole[i].Name, whole[i].Sum).Text
}

// relayed are the events of a request that its caller shows.
func (r *Run) relayed(id ID) []oplog.Seen {
	var all []oplog.Seen
	for _, seen := range r.shown(shownKey{id, true}) {
		if name := event.Name(seen.Name); name != event.NameClaim && name != event.NameInput {
			all = append(all, seen)
		}
	}
	return all
}

// copies returns, of each request, what each caller shows.
func (r *Run) copies() map[ID]map[ID][]copied {
	all := map[ID]map[ID][]copied{}
	for _, id := range sorted(r.Logs) {
		for _, f := range r.Logs[id].Frames {
			for line := range f.Each() {
				if line.Name != event.NameSubagent {
					continue
				}
				e, err := event.Decode(line.JSON)
				told, ok := e.Body.(event.Subagent)
				if err != nil || !ok {
					continue // I2 reports it
				}
				inner, err := event.Decode(told.Inner)
				if err != nil {
					continue // the request that it belongs to has one event less, which is reported there
				}
				_, n, err := event.ParseCursor(string(inner.ID))
				if err != nil {
					continue
				}
				below := ID{id.Tenant, inner.RequestID}
				if all[below] == nil {
					all[below] = map[ID][]copied{}
				}
				all[below][id] = append(all[below][id], copied{n, oplog.SumOf(told.Inner)})
			}
		}
	}
	return all
}

// resultOf is the status of a call's result in a log; "" without a result.
func resultOf(l *Log, callID string) event.ToolStatus {
	for _, f := range l.Frames {
		for line := range f.Each() {
			if line.Name != event.NameToolResult {
				continue
			}
			e, err := event.Decode(line.JSON)
			if result, ok := e.Body.(event.ToolResult); err == nil && ok &&
				result.ToolCallID == callID && result.Stage == event.StageStop && !result.Discarded {
				return result.Status
			}
		}
	}
	return ""
}

// countTrees counts the rare paths of agents that call agents.
func (r *Run) countTrees(taken map[string]int) {
	for id, l := range r.Logs {
		if l.Accepted == nil || l.Accepted.Caller == nil {
			continue
		}
		taken[PathCalled]++
		if len(l.Accepted.Caller.Agents) > 1 {
			taken[PathNested]++
		}
		if len(l.Accepted.Request.Context.ActionResults) > 0 {
			taken[PathAskedBelow]++
		}
		caller := r.Logs[ID{id.Tenant, l.Accepted.Caller.RequestID}]
		if l.Terminal() == event.NameAborted && caller.Terminal() == event.NameAborted {
			taken[PathCutBelow]++
		}
	}
}
