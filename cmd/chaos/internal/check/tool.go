package check

import (
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// call is a tool call as the logs have it.
type call struct {
	id   ID
	tool string
	hash string    // of its arguments
	at   time.Time // when it was stored
}

// asked returns all tool calls by their ids.
func (r *Run) asked() map[string]call {
	calls := map[string]call{}
	for id, l := range r.Logs {
		for _, f := range l.Frames {
			for line := range f.Each() {
				if line.Name != event.NameToolCall {
					continue
				}
				e, err := event.Decode(line.JSON)
				if err != nil {
					continue // I2 reports it
				}
				c, ok := e.Body.(event.ToolCall)
				if !ok || c.Stage != event.StageStop || c.Discarded {
					continue
				}
				hash, _ := record.HashArgs(c.Args) // invalid JSON has the hash of empty input
				calls[c.ToolCallID] = call{id, c.Tool, hash, f.Time}
			}
		}
	}
	return calls
}

// skew is how far the clock of a process may be from the broker's: it is one machine.
const skew = 50 * time.Millisecond

// executions is I7.
func (r *Run) executions() []Violation {
	calls := r.asked()
	runners := r.runners()
	runs := map[string]int{}
	var found []Violation
	for _, x := range r.Executions {
		if x.Ended {
			continue
		}
		c, ok := calls[x.Call]
		if !ok {
			found = append(found, violation(ID{}, "call %s of %s ran, and no log has asked for it", x.Call, x.Tool))
			continue
		}
		runs[x.Call]++
		if id, ok := runners[x.Call]; ok {
			c.id = id
		}
		l := r.Logs[c.id]
		x.At = steady(x.At, c.at)
		if x.At.Before(c.at.Add(-skew)) {
			found = append(found, violation(c.id, "call %s ran %v before it was stored", x.Call, c.at.Sub(x.At)))
		}
		if l.Abort != nil {
			late := x.At.Sub(l.AbortAt)
			if late > r.Limits.Grace+r.frozen("tool-executor", l.AbortAt, x.At) {
				found = append(found, violation(c.id, "call %s ran %v after the abort of its request was stored",
					x.Call, late.Round(time.Millisecond)))
			}
		}
		if unsafe := x.Tool == journal.Unsafe || x.Tool == journal.Approved; unsafe && runs[x.Call] > 1 {
			found = append(found, violation(c.id, "call %s of %s ran %d times", x.Call, x.Tool, runs[x.Call]))
		}
	}
	found = append(found, r.results()...)
	return append(found, r.each(func(id ID, l *Log) []Violation {
		var found []Violation
		for callID, result := range l.Results {
			if c := calls[callID]; isJournal(c.tool) && result.Status == event.ToolSuccess && runs[callID] == 0 {
				found = append(found, violation(id, "call %s has the result of a success, and never ran", callID))
			}
		}
		return found
	})...)
}

// runners returns the request in which each call ran: one that needed an approval runs in the request that brings it.
func (r *Run) runners() map[string]ID {
	runners := map[string]ID{}
	for id, l := range r.Logs {
		for callID := range l.Started {
			runners[callID] = id
		}
		for callID := range l.Results {
			runners[callID] = id
		}
	}
	return runners
}

func isJournal(tool string) bool {
	switch tool {
	case journal.None, journal.Idempotent, journal.Unsafe, journal.Approved:
		return true
	}
	return false
}

// action is what a continuation asks for.
type action struct {
	id       ID
	actionID string
	kind     event.ContinuationKind
	callID   string
	tool     string
	indirect bool // it asks for a call that has run, or for one of another agent
	hash     string
	resolved map[string]event.ActionStatus // by the request on the thread that contains the result
}

// actions is I8.
func (r *Run) actions() []Violation {
	all := r.announced()
	for id, records := range r.Threads {
		for _, t := range records {
			l := r.Logs[ID{id.Tenant, t.RequestID}]
			for _, actionID := range t.Resolves {
				if a, ok := all[actionID]; ok {
					a.resolved[t.RequestID] = statusOf(l, actionID)
				}
			}
		}
	}
	var found []Violation
	taken := map[string]string{}
	for _, e := range r.of(oplog.Post) {
		for _, actionID := range e.Actions {
			if first := taken[actionID]; e.Status/100 == 2 && first != "" && first != e.Request {
				found = append(found, violation(ID{e.Tenant, e.Request}, "it was taken with action %s, which %s resolves", actionID, first))
			}
			if e.Status/100 == 2 {
				taken[actionID] = e.Request
			}
		}
	}
	allowed := map[string]action{} // by call
	for actionID, a := range all {
		if len(a.resolved) > 1 {
			found = append(found, violation(a.id, "action %s is resolved by %d requests", actionID, len(a.resolved)))
		}
		for _, status := range a.resolved {
			if status == event.ActionSuccess {
				allowed[a.callID] = a
			}
		}
	}
	return append(append(found, r.unallowed(allowed)...), r.obeyed(all)...)
}

// announced returns all actions by their ids.
func (r *Run) announced() map[string]action {
	all := map[string]action{}
	for id, l := range r.Logs {
		for _, f := range l.Frames {
			for line := range f.Each() {
				if line.Name != event.NameContinuation {
					continue
				}
				if e, err := event.Decode(line.JSON); err == nil {
					if c, ok := e.Body.(event.Continuation); ok {
						all[c.ActionID] = action{
							id: id, actionID: c.ActionID, kind: c.Kind, callID: c.Payload.ToolCallID, tool: c.Payload.Tool,
							indirect: c.Payload.Again || c.Payload.Agent != nil, hash: c.Payload.ArgsHash,
							resolved: map[string]event.ActionStatus{},
						}
					}
				}
			}
		}
	}
	return all
}

// statusOf is what a request says about an action.
func statusOf(l *Log, actionID string) event.ActionStatus {
	if l == nil || l.Accepted == nil {
		return ""
	}
	for _, result := range l.Accepted.Request.Context.ActionResults {
		if result.ActionID == actionID {
			return result.Status
		}
	}
	return ""
}

// unallowed finds executions of what needs an approval and has none, or has one for other arguments.
func (r *Run) unallowed(allowed map[string]action) []Violation {
	var found []Violation
	for _, x := range r.Executions {
		if x.Tool != journal.Approved || x.Ended {
			continue
		}
		a, ok := allowed[x.Call]
		if !ok {
			found = append(found, violation(ID{}, "call %s ran without approval", x.Call))
			continue
		}
		if hash, err := record.HashArgs(x.Args); err != nil || hash != a.hash {
			found = append(found, violation(a.id, "call %s ran with %s, which was not approved", x.Call, x.Args))
		}
	}
	return found
}
