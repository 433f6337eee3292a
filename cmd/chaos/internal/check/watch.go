package check

import (
	"strings"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// PathRejoined is the rare path of clients that resume a thread or session after a cursor.
const PathRejoined = "thread or session rejoined"

// watched is what one watcher has seen over all its connections.
type watched struct {
	name   string
	seen   []oplog.Seen
	ended  bool // it has seen the end of the last request
	native bool
}

// watches is I19. Native streams of a thread show the logs of its requests one after the other. Tarko's events have other
// forms: all who read a session by one route see the same, and one end for each request.
func (r *Run) watches() []Violation {
	var found []Violation
	groups := map[[3]string][]watched{} // by tenant, thread and format
	var order [][3]string
	sessions, names := map[string][]oplog.Entry{}, []string{}
	for _, e := range r.of(oplog.Watch) {
		if len(sessions[e.Session]) == 0 {
			names = append(names, e.Session)
		}
		sessions[e.Session] = append(sessions[e.Session], e)
		if e.Status == 404 || e.Status == 403 {
			found = append(found, violation(ID{e.Tenant, e.Thread}, "%s is not let in over %s: %d", e.Session, e.Gateway, e.Status))
		}
	}
	for _, name := range names {
		first := sessions[name][0]
		w, broken := r.assemble(name, sessions[name])
		found = append(found, broken...)
		key := [3]string{first.Tenant, first.Thread, first.Format}
		if len(groups[key]) == 0 {
			order = append(order, key)
		}
		groups[key] = append(groups[key], w)
	}
	for _, key := range order {
		found = append(found, r.agree(ID{key[0], key[1]}, key[2], groups[key])...)
	}
	return found
}

// assemble concatenates the events that a watcher received over its connections. Events after the newest cursor of a
// lost connection are received again.
func (r *Run) assemble(name string, connections []oplog.Entry) (watched, []Violation) {
	w := watched{name: name, native: strings.HasPrefix(connections[0].Format, "thread")}
	var found []Violation
	var pending []oplog.Seen
	for _, c := range connections {
		id := ID{c.Tenant, c.Thread}
		if c.Reset {
			found = append(found, violation(id, "%s resumed after %s, which the gateway could not resume", name, c.After))
			w.seen, pending = nil, nil
		}
		if (c.Status == 200 || c.Status == 101) && c.Error != "" {
			found = append(found, violation(id, "%s over %s was sent what cannot be read: %s", name, c.Gateway, c.Error))
		}
		if c.After == "" {
			pending = append(w.seen, pending...) // it begins at the beginning
			w.seen = nil
		}
		for i := range min(len(pending), len(c.Seen)) {
			if pending[i] != c.Seen[i] {
				found = append(found, violation(id, "%s saw %s (%s) at first, and %s (%s) in its place over %s",
					name, pending[i].Name, pending[i].Sum, c.Seen[i].Name, c.Seen[i].Sum, c.Gateway))
				break
			}
		}
		if len(c.Seen) > 0 || c.Kept > 0 {
			pending = nil
		}
		w.seen = append(w.seen, c.Seen[:c.Kept]...)
		pending = append(pending, c.Seen[c.Kept:]...)
		w.ended = c.End == oplog.Terminal
	}
	w.seen = append(w.seen, pending...)
	return w, found
}

// agree compares what several have seen of one thread by the same route.
func (r *Run) agree(id ID, format string, all []watched) []Violation {
	var found []Violation
	whole := r.threadShown(id, format)
	if !all[0].native {
		whole = nil
		for _, w := range all {
			if len(w.seen) > len(whole) {
				whole = w.seen
			}
		}
	}
	for _, w := range all {
		for i, seen := range w.seen {
			if i >= len(whole) || seen != whole[i] {
				found = append(found, violation(id, "%s (%s) saw %s (%s) at place %d, and there belongs %s",
					w.name, format, seen.Name, seen.Sum, i, placeOf(whole, i)))
				break
			}
		}
		if w.ended && w.native && len(w.seen) < len(whole) {
			found = append(found, violation(id, "%s (%s) saw the end after %d of %d events", w.name, format, len(w.seen), len(whole)))
		}
		if ends := countEnds(w.seen); w.ended && !w.native && ends != len(r.Threads[id]) {
			found = append(found, violation(id, "%s (%s) saw the ends of %d requests, and the thread has %d",
				w.name, format, ends, len(r.Threads[id])))
		}
	}
	return found
}

func countEnds(seen []oplog.Seen) int {
	n := 0
	for _, s := range seen {
		if s.Name == "agent_run_end" {
			n++
		}
	}
	return n
}

// threadShown is what a native stream of a thread must show: that of each request, and what was said to it.
func (r *Run) threadShown(id ID, format string) []oplog.Seen {
	var all []oplog.Seen
	for _, t := range r.Threads[id] {
		l := r.Logs[ID{id.Tenant, t.RequestID}]
		if l == nil {
			continue
		}
		for _, f := range l.Frames {
			for line := range f.Each() {
				if line.Name == event.NameInput || isShown(line, strings.Contains(format, "extended")) {
					all = append(all, oplog.Seen{Name: string(line.Name), Sum: oplog.SumOf(line.JSON)})
				}
			}
		}
	}
	return all
}

// countWatches counts those who came back.
func (r *Run) countWatches(taken map[string]int) {
	for _, e := range r.of(oplog.Watch) {
		if e.After != "" && e.Kept > 0 {
			taken[PathRejoined]++
		}
	}
}
