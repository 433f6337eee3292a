package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// toolCall is a call that counts, and the results that all logs of its tenant hold of it.
type toolCall struct {
	id      ID
	block   *block
	whole   bool // the turn that made it has ended
	outputs []output
	results []ID // the requests whose blocks show its result to clients
}

// output is what a model read of a call.
type output struct {
	id ID // in whose log
	event.ToolOutput
}

// callsMade collects all valid calls with their results, and returns violations for results of other calls.
func (r *Run) callsMade() (map[string]*toolCall, []Violation) {
	calls := map[string]*toolCall{}
	var found []Violation
	folds := map[ID]*fold{}
	for _, id := range sorted(r.Logs) {
		all := r.Logs[id].lines()
		folds[id] = foldOf(id, all)
		ended := uint64(0) // n of the newest end of a turn
		for _, one := range all {
			if _, ok := one.body.(event.UsageSoFar); ok {
				ended = one.n
			}
		}
		for _, b := range folds[id].kept() {
			if b.content.Type == event.ContentToolUse {
				calls[b.content.ToolCallID] = &toolCall{id: id, block: b, whole: b.start < ended}
			}
		}
	}
	for _, id := range sorted(r.Logs) {
		for _, one := range r.Logs[id].lines() {
			out, ok := one.body.(event.ToolOutput)
			if !ok {
				continue
			}
			if c := calls[out.ToolCallID]; c != nil {
				c.outputs = append(c.outputs, output{id, out})
			} else {
				found = append(found, violation(id, "event %d is the output of call %s, which no log has asked for", one.n, out.ToolCallID))
			}
		}
		for _, b := range folds[id].kept() {
			if c := calls[b.content.ToolCallID]; c != nil && b.content.Type == event.ContentToolResult {
				c.results = append(c.results, id)
			}
		}
	}
	return calls, found
}

// results is the part of I7 that says how many results a call has.
func (r *Run) results() []Violation {
	calls, found := r.callsMade()
	later := r.laterRequests()
	waits := map[string]bool{} // calls for which an action was announced, those of agents that ask for one among them
	for _, a := range r.announced() {
		waits[a.callID] = true
	}
	for _, callID := range sortedKeys(calls) {
		c := calls[callID]
		owner := r.Logs[c.id]
		if n := len(c.outputs); n > 1 || len(c.results) > 1 {
			found = append(found, violation(c.id, "call %s of %s has %d outputs and %d results", callID, c.block.content.Name, n, len(c.results)))
			continue
		}
		if c.block.inside {
			continue // the agent ran it: I20 says what is owed
		}
		if len(c.outputs) != len(c.results) && r.ended(c) {
			found = append(found, violation(c.id, "call %s has %d outputs for the model and %d results for clients",
				callID, len(c.outputs), len(c.results)))
		}
		owed := owner.Terminal() == event.NameDone && c.whole
		if c.block.gate != "" || waits[callID] {
			owed = owed && r.answered(later[c.id])
		}
		if owed && len(c.outputs) == 0 {
			found = append(found, violation(c.id, "call %s of %s has no result", callID, c.block.content.Name))
		}
		for _, out := range c.outputs {
			found = append(found, r.journalled(c, out)...)
		}
	}
	return found
}

// ended reports whether every log that holds something of a call has its terminal event.
func (r *Run) ended(c *toolCall) bool {
	for _, out := range c.outputs {
		if r.Logs[out.id].Terminal() == "" {
			return false
		}
	}
	return r.Logs[c.id].Terminal() != ""
}

// journalled checks the success of a tool that notes its executions: its record is stored, and says what the call noted.
func (r *Run) journalled(c *toolCall, out output) []Violation {
	if !isJournal(c.block.content.Name) || out.Status != event.ToolSuccess {
		return nil
	}
	stored, ok := r.Logs[out.id].Results[out.ToolCallID]
	if !ok || stored.Status != out.Status || stored.Content != out.Content {
		return []Violation{violation(out.id, "the output of call %s is %q, and the stored result is %s %q",
			out.ToolCallID, out.Content, stored.Status, stored.Content)}
	}
	var args struct {
		Mark string `json:"mark"`
	}
	if err := json.Unmarshal(c.block.content.Args, &args); err != nil || out.Content != "noted "+args.Mark {
		return []Violation{violation(out.id, "the output of call %s is %q, and it was called with %s",
			out.ToolCallID, out.Content, c.block.content.Args)}
	}
	return nil
}

// laterRequests lists for each request the later ones on its thread.
func (r *Run) laterRequests() map[ID][]ID {
	later := map[ID][]ID{}
	for id, records := range r.Threads {
		for i, t := range records {
			for _, next := range records[i+1:] {
				if !t.Deleted && !next.Deleted {
					one := ID{id.Tenant, t.RequestID}
					later[one] = append(later[one], ID{id.Tenant, next.RequestID})
				}
			}
		}
	}
	return later
}

// answered reports whether one of the requests is done and said something, so that it settles what waited before it. One
// with results alone settles those calls that it brings results for.
func (r *Run) answered(later []ID) bool {
	for _, id := range later {
		if l := r.Logs[id]; l.Terminal() == event.NameDone && l.Accepted != nil && len(l.Accepted.Request.Messages) > 0 {
			return true
		}
	}
	return false
}

// obeyed is the part of I8 that says what becomes of a call whose action is resolved.
func (r *Run) obeyed(all map[string]action) []Violation {
	calls, _ := r.callsMade()
	runs := map[string]int{}
	for _, x := range r.Executions {
		if !x.Ended {
			runs[x.Call]++
		}
	}
	var found []Violation
	for _, actionID := range sortedKeys(all) {
		a := all[actionID]
		for request, status := range a.resolved {
			id := ID{a.id.Tenant, request}
			if r.Logs[id].Terminal() != event.NameDone || a.indirect || calls[a.callID] == nil {
				continue
			}
			var out event.ToolOutput
			for _, one := range calls[a.callID].outputs {
				if one.id == id {
					out = one.ToolOutput
				}
			}
			if why := r.disobeyed(a, id, status, out, runs[a.callID]); why != "" {
				found = append(found, violation(id, "action %s on call %s was resolved with %s, and %s", actionID, a.callID, status, why))
			}
		}
	}
	return found
}

// disobeyed says how an output is not what a resolution asks for; "" when it is.
func (r *Run) disobeyed(a action, id ID, status event.ActionStatus, out event.ToolOutput, runs int) string {
	_, started := r.Logs[id].Started[a.callID]
	switch {
	case out.Status == "":
		return "the call has no result"
	case status == event.ActionDenied && out.Status != event.ToolDenied:
		return "its result is " + string(out.Status)
	case status != event.ActionSuccess:
	case out.Status == event.ToolDenied:
		return "its result is denied: " + out.Content
	case a.kind == event.ContinueApproval && isJournal(a.tool):
		// An executor that dies after its started record leaves a call that may or may not have run.
		if runs == 0 && (out.Status != event.ToolUnknown || !started) {
			return "it never ran: " + string(out.Status) + " " + out.Content
		}
	case a.kind != event.ContinueApproval && out.Content != answerOf(r.Logs[id], a.actionID):
		return "the model reads " + out.Content
	}
	return ""
}

// answerOf is what a client answered, as the model must read it.
func answerOf(l *Log, actionID string) string {
	for _, result := range l.Accepted.Request.Context.ActionResults {
		var text string
		if result.ActionID != actionID {
			continue
		}
		if json.Unmarshal(result.Result, &text) == nil {
			return text
		}
		return string(result.Result)
	}
	return ""
}

// steers is the part of I6 that says what becomes of what users say to a request that runs.
func (r *Run) steers() []Violation {
	var found []Violation
	read := map[ID]map[string]bool{}
	for _, id := range sorted(r.Logs) {
		read[id] = map[string]bool{}
		for _, one := range r.Logs[id].lines() {
			input, ok := one.body.(event.Input)
			if !ok || input.SteerID == "" {
				continue
			}
			if read[id][input.SteerID] {
				found = append(found, violation(id, "event %d takes up steer %s for the second time", one.n, input.SteerID))
			}
			read[id][input.SteerID] = true
		}
	}
	unread := map[ID]string{} // what the state of each request says of it
	for _, v := range r.Views {
		if v.Route == RouteState {
			unread[v.ID] = v.Document
		}
	}
	for _, e := range r.of(oplog.Steer) {
		id := ID{e.Tenant, e.Request}
		l := r.Logs[id]
		if e.Status != 202 || e.Steer == "" || l == nil {
			continue
		}
		stored, ok := l.Steers[e.Steer]
		switch {
		case !ok:
			found = append(found, violation(id, "steer %s was accepted, but there is no record of it", e.Steer))
		case !read[id][e.Steer] && r.mustRead(id, l, stored):
			found = append(found, violation(id, "steer %s was stored %v before the end was written, and was never read",
				e.Steer, r.ending(id, l).Sub(stored.At).Round(time.Millisecond)))
		}
		if state, ok := unread[id]; ok && strings.Contains(state, e.Steer) == read[id][e.Steer] {
			found = append(found, violation(id, "steer %s was read: %v, and the state of the request says %s", e.Steer, read[id][e.Steer], state))
		}
	}
	return found
}

// mustRead reports whether a request had to read a steer: it is done, could have continued, and the steer was stored
// before its runner last read commands.
func (r *Run) mustRead(id ID, l *Log, stored Steer) bool {
	all := l.lines()
	if len(all) == 0 || l.Last().Sequence < stored.Sequence {
		return false
	}
	done, ok := all[len(all)-1].body.(event.Done)
	if !ok || done.FinishReason != event.FinishStop || turnsRun(all) >= maxTurns {
		return false
	}
	return r.overdue(id, l, stored.At) > 0
}

// maxTurns is how many turns of the model a request may have, in the configuration of the cluster.
const maxTurns = 20

func turnsRun(all []line) (n int) {
	for _, one := range all {
		if _, ok := one.body.(event.UsageSoFar); ok {
			n++
		}
	}
	return n
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
