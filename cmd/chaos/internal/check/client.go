package check

import (
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// sessions is I3.
func (r *Run) sessions() []Violation {
	bySession := map[string][]oplog.Entry{}
	var names []string
	for _, e := range r.of(oplog.Read) {
		if len(bySession[e.Session]) == 0 {
			names = append(names, e.Session)
		}
		bySession[e.Session] = append(bySession[e.Session], e)
	}
	shown := map[shownKey][]oplog.Seen{}
	var found []Violation
	for _, name := range names {
		found = append(found, r.session(name, bySession[name], shown)...)
	}
	return found
}

type shownKey struct {
	ID
	extended bool
}

// session checks the connections of one session, which follow each other.
func (r *Run) session(name string, connections []oplog.Entry, shown map[shownKey][]oplog.Seen) []Violation {
	var found []Violation
	at := 0
	for _, c := range connections {
		id := ID{c.Tenant, c.Request}
		key := shownKey{id, c.Extended}
		if _, ok := shown[key]; !ok {
			shown[key] = r.shown(key)
		}
		whole := shown[key]
		if c.Reset {
			found = append(found, violation(id, "%s resumed after %s, which the gateway could not resume", name, c.After))
			at = 0
		}
		if c.End == oplog.Whole {
			found = append(found, violation(id, "%s over %s came to an orderly end without a terminal event", name, c.Gateway))
		}
		if c.Status == 200 && c.Error != "" {
			found = append(found, violation(id, "%s received data that is not an event: %s", name, c.Error))
		}
		for _, seen := range c.Seen {
			if at >= len(whole) {
				found = append(found, violation(id, "%s saw event %d %s, and the log ends before it", name, seen.N, seen.Name))
				return found
			}
			if seen != whole[at] {
				found = append(found, violation(id, "%s received event %d %s (%s) over %s, but the log continues with %d %s (%s)",
					name, seen.N, seen.Name, seen.Sum, c.Gateway, whole[at].N, whole[at].Name, whole[at].Sum))
				return found
			}
			at++
		}
		if c.End == oplog.Terminal && at != len(whole) {
			found = append(found, violation(id, "%s saw the end after %d of %d events", name, at, len(whole)))
		}
	}
	return found
}

// shown is what a client must see of a log.
func (r *Run) shown(key shownKey) []oplog.Seen {
	l := r.Logs[key.ID]
	if l == nil {
		return nil
	}
	return seenOf(l, func(line event.Line) bool { return isShown(line, key.extended) })
}

// isShown reports whether a client that does not include the output of tools sees an event.
func isShown(line event.Line, extended bool) bool {
	return (line.Name.IsNative() || extended && !line.Name.IsInternal()) && !line.HasToolOutput()
}

// seenOf is a log's events that are wanted, as a client sees them.
func seenOf(l *Log, wanted func(event.Line) bool) []oplog.Seen {
	var all []oplog.Seen
	for _, f := range l.Frames {
		for line := range f.Each() {
			if wanted(line) {
				all = append(all, oplog.Seen{N: line.N, Name: string(line.Name), Sum: oplog.SumOf(line.JSON)})
			}
		}
	}
	return all
}

// posts is I6.
func (r *Run) posts() []Violation {
	var found []Violation
	requests := map[ID]string{} // by key
	for _, e := range r.of(oplog.Post) {
		if e.Status/100 != 2 {
			continue
		}
		id := ID{e.Tenant, e.Request}
		if l := r.Logs[id]; l == nil || l.Accepted == nil {
			found = append(found, violation(id, "the response had status %d, but there is no accept record", e.Status))
		} else if body := l.Accepted.BodyHash; e.Key != "" && body == "" {
			found = append(found, violation(id, "its record lacks the owner of its key"))
		}
		if !r.onThread(id, e.Thread) {
			found = append(found, violation(id, "it was answered with %d, and is not on its thread %s", e.Status, e.Thread))
		}
		if e.Key == "" {
			continue
		}
		key := ID{e.Tenant, e.Key}
		if first, ok := requests[key]; ok && first != e.Request {
			found = append(found, violation(id, "key %s has made %s as well", e.Key, first))
		}
		requests[key] = e.Request
	}
	found = append(append(found, r.steers()...), r.retries()...)
	for _, e := range r.of(oplog.Read) {
		if e.Status == 404 {
			found = append(found, violation(ID{e.Tenant, e.Request}, "it was taken, and over %s it is not found", e.Gateway))
		}
	}
	return found
}

func (r *Run) onThread(id ID, thread string) bool {
	for _, t := range r.Threads[ID{id.Tenant, thread}] {
		if t.RequestID == id.Name {
			return true
		}
	}
	return false
}

// borders is I11.
func (r *Run) borders() []Violation {
	var found []Violation
	for _, e := range r.Entries {
		if e.Foreign != "" {
			found = append(found, violation(ID{e.Tenant, e.Request}, "%s of %s was sent %s", e.Actor, e.Tenant, e.Foreign))
		}
		if e.Op == oplog.Spy && e.Status/100 == 2 {
			found = append(found, violation(ID{e.Tenant, e.Request}, "%s of %s was let in: %d", e.Actor, e.Tenant, e.Status))
		}
	}
	for _, text := range r.Told {
		found = append(found, violation(ID{}, "%s", text))
	}
	return found
}

// life is I13. A gateway that is frozen shows no life, and one that is killed may cut anything.
func (r *Run) life() []Violation {
	var found []Violation
	faults := r.of(oplog.Fault)
	for _, e := range r.of(oplog.Read) {
		if e.Format != "sse" || e.Status != 200 {
			continue
		}
		id := ID{e.Tenant, e.Request}
		frozen, killed, stopped := during(faults, e)
		if e.Silence > r.Limits.Heartbeat+frozen {
			found = append(found, violation(id, "%s received nothing over %s for %v", e.Session, e.Gateway, e.Silence.Round(time.Millisecond)))
		}
		if e.Partial > 0 && stopped && !killed && e.End == oplog.Cut {
			found = append(found, violation(id,
				"%s was cut within an event, after %d bytes, by a gateway that was asked to stop", e.Session, e.Partial))
		}
	}
	return found
}

// faultSlack is how long a fault's traces last.
const faultSlack = time.Second

// during says what happened to a connection's gateway meanwhile.
func during(faults []oplog.Entry, e oplog.Entry) (frozen time.Duration, killed, stopped bool) {
	for _, f := range faults {
		overlaps := f.At <= e.At+e.Took+faultSlack && e.At <= f.At+f.Took+faultSlack
		if !overlaps || !strings.Contains(f.Target, e.Gateway) {
			continue
		}
		switch verb, _, _ := strings.Cut(f.Fault, " "); verb {
		case "freeze":
			frozen += f.Took
		case "kill", "skew":
			killed = true
		case "stop", "deploy":
			stopped = true
		}
	}
	return frozen, killed, stopped
}
