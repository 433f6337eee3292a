package check

import (
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// terminals is I1.
func (r *Run) terminals() []Violation {
	owed := map[ID]bool{}
	for _, e := range r.of(oplog.Post) {
		if e.Status/100 == 2 && e.Request != "" {
			owed[ID{e.Tenant, e.Request}] = true
		}
	}
	for id, records := range r.Threads {
		for _, t := range records {
			owed[ID{id.Tenant, t.RequestID}] = !t.Deleted || owed[ID{id.Tenant, t.RequestID}]
		}
	}
	var found []Violation
	for _, id := range sorted(owed) {
		if owed[id] && r.Logs[id].Terminal() == "" {
			found = append(found, violation(id, "it was accepted, and its log does not end with a terminal event"))
		}
	}
	return append(found, r.each(func(id ID, l *Log) []Violation {
		var found []Violation
		for i, f := range l.Frames {
			for k, name := range f.Names {
				if name.IsTerminal() && (i < len(l.Frames)-1 || k < len(f.Names)-1) {
					found = append(found, violation(id, "event %d is %s, but the log continues", f.First+uint64(k), name))
				}
			}
		}
		if took := l.Last().Time.Sub(l.AcceptedAt); l.Terminal() != "" && l.Accepted != nil && took > r.Limits.Deadline {
			found = append(found, violation(id, "it took %v to end", took.Round(time.Millisecond)))
		}
		return found
	})...)
}

// order is I2.
func (r *Run) order() []Violation {
	found := r.each(func(id ID, l *Log) []Violation {
		var found []Violation
		next, epoch := uint64(0), uint64(0)
		for _, f := range l.Frames {
			if f.First != next {
				found = append(found, violation(id, "a frame of epoch %d begins with event %d, and %d is next", f.Epoch, f.First, next))
			}
			found = append(found, frameOrder(id, f, epoch)...)
			next, epoch = f.Next(), f.Epoch
		}
		return found
	})
	return append(found, r.fences()...)
}

// frameOrder checks one frame that follows others of an epoch.
func frameOrder(id ID, f event.Frame, before uint64) []Violation {
	events, err := f.Events()
	if err != nil || len(events) == 0 || len(events) != len(f.Names) {
		return []Violation{violation(id, "the frame at %d has %d names and %d events: %v", f.First, len(f.Names), len(events), err)}
	}
	var found []Violation
	claims := 0
	for i, e := range events {
		n := f.First + uint64(i)
		if e.ID != event.NewCursor(f.Incarnation, n) || e.RequestID != id.Name || e.Body.Name() != f.Names[i] {
			found = append(found, violation(id, "event %d says that it is %s %s of %s", n, f.Names[i], e.ID, e.RequestID))
		}
		if claim, ok := e.Body.(event.Claim); ok && claim.Released {
			found = append(found, released(id, f, claim, n)...)
		} else if ok {
			claims++
			if i > 0 || claim.Epoch != f.Epoch {
				found = append(found, violation(id, "event %d claims epoch %d within a frame of epoch %d", n, claim.Epoch, f.Epoch))
			}
		}
	}
	switch {
	case claims == 0 && f.Epoch != before:
		found = append(found, violation(id, "event %d is written in epoch %d, and the last claim was %d", f.First, f.Epoch, before))
	case claims > 0 && f.Epoch != before+1:
		found = append(found, violation(id, "event %d claims epoch %d after %d", f.First, f.Epoch, before))
	}
	return found
}

// released checks event n, a released claim: no event of its epoch follows.
func released(id ID, f event.Frame, claim event.Claim, n uint64) []Violation {
	if claim.Epoch == f.Epoch && n+1 == f.Next() {
		return nil
	}
	return []Violation{violation(id, "epoch %d continues after event %d, which released the log", f.Epoch, n)}
}

// fences checks that each writer that stopped as fenced was fenced: by a message of another epoch.
func (r *Run) fences() []Violation {
	var found []Violation
	for _, m := range r.Marks {
		if m.What != MarkFenced {
			continue
		}
		id, ok := logOf(m.Subject)
		l := r.Logs[id]
		if !ok || l == nil {
			continue
		}
		for _, f := range l.Frames {
			if f.Sequence == m.Sequence && f.Epoch == m.Epoch {
				found = append(found, violation(id, "the writer of epoch %d was fenced by its own event %d", m.Epoch, f.First))
			}
		}
	}
	return found
}

// logOf takes the subject of a log apart.
func logOf(subject string) (ID, bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 4 || tokens[1] != "event" {
		return ID{}, false
	}
	return ID{tokens[2], tokens[3]}, true
}

// acknowledged is I4: appends that were acknowledged to a writer, and events that a client received, are stored.
func (r *Run) acknowledged() []Violation {
	var found []Violation
	for _, m := range r.Marks {
		if m.What != MarkAcknowledged {
			continue
		}
		if stored := r.Stored[m.Sequence]; stored != m.Subject {
			found = append(found, violation(ID{}, "message %d on %s was acknowledged, but the stream has %q there", m.Sequence, m.Subject, stored))
		}
	}
	for _, e := range r.of(oplog.Abort) {
		id := ID{e.Tenant, e.Request}
		if l := r.Logs[id]; e.Status == 202 && (l == nil || l.Abort == nil) {
			found = append(found, violation(id, "its abort was accepted, but there is no record of it"))
		}
	}
	return found
}

// tables is I5.
func (r *Run) tables() []Violation {
	found := r.each(func(id ID, l *Log) []Violation {
		if len(l.Frames) == 0 {
			return nil
		}
		row, ok := r.Rows[id]
		if !ok {
			return []Violation{violation(id, "SQL does not have it")}
		}
		var found []Violation
		if row.Broken != "" {
			found = append(found, violation(id, "its rows do not fit together: %s", row.Broken))
		}
		if row.Next != l.Last().Next() {
			found = append(found, violation(id, "SQL has events up to %d, the log up to %d", row.Next, l.Last().Next()))
		}
		var lines []byte
		for _, f := range l.Frames {
			lines = append(lines, f.Lines...)
		}
		if string(lines) != string(row.Lines) {
			found = append(found, violation(id, "its rows hold other events than its log"))
		}
		if want := l.Terminal(); want != "" && (row.Terminals != 1 || row.Status != string(want)) {
			found = append(found, violation(id, "SQL says %s with %d terminal events, and the log says %s", row.Status, row.Terminals, want))
		}
		return found
	})
	for _, id := range sorted(r.Rows) {
		if l := r.Logs[id]; l == nil && r.Rows[id].Next > 0 {
			found = append(found, violation(id, "SQL holds events of it, and no log does"))
		}
	}
	return found
}

// threads is I9.
func (r *Run) threads() []Violation {
	var found []Violation
	for _, id := range sorted(r.Threads) {
		last := uint64(0)
		for i, t := range r.Threads[id] {
			if t.Deleted {
				continue
			}
			if t.Index != i {
				found = append(found, violation(id, "record %d has index %d", i, t.Index))
			}
			l := r.Logs[ID{id.Tenant, t.RequestID}]
			if l == nil || len(l.Frames) == 0 || neverRan(l) {
				continue
			}
			if first := l.Frames[0].Sequence; first < last {
				found = append(found, violation(id, "request %s began at %d, before the one ahead of it ended at %d", t.RequestID, first, last))
			}
			last = max(last, l.Last().Sequence)
		}
	}
	return found
}

// neverRan reports whether a request was aborted while it waited for its turn.
func neverRan(l *Log) bool {
	if l.Terminal() != event.NameAborted {
		return false
	}
	work := []event.Name{event.NameText, event.NameThinking, event.NameToolCall, event.NameToolResult}
	for _, f := range l.Frames {
		if slices.ContainsFunc(f.Names, func(n event.Name) bool { return slices.Contains(work, n) }) {
			return false
		}
	}
	return true
}

// aborts is I10. A runner looks for an abort just before it writes the end. One that is stored while that look is on its
// way is too late, and a look may take as long as Limits.Decision: so the end counts from when it was written, not from
// when it was stored.
func (r *Run) aborts() []Violation {
	found := r.each(func(id ID, l *Log) []Violation {
		terminal := l.Terminal()
		if l.Abort == nil || terminal == event.NameAborted || terminal == "" || l.Last().Sequence < l.AbortSeq {
			return nil
		}
		if late := r.overdue(id, l, l.AbortAt); late > 0 {
			return []Violation{violation(id, "it ended with %s, written %v after the record of its abort was stored, %v too late",
				terminal, r.ending(id, l).Sub(l.AbortAt).Round(time.Millisecond), late.Round(time.Millisecond))}
		}
		return nil
	})
	for _, e := range r.of(oplog.Abort) {
		id := ID{e.Tenant, e.Request}
		l := r.Logs[id]
		if e.Status != 202 || l.Terminal() == "" {
			continue
		}
		if asked := r.Begin.Add(e.At); l.Last().Time.Before(asked.Add(-r.Limits.Refusal)) {
			found = append(found, violation(id, "its abort was taken %v after it had ended", asked.Sub(l.Last().Time).Round(time.Millisecond)))
		}
	}
	return found
}

// overdue is by how much the end of a request was written later than it may be without having seen a command that was stored
// at a time; 0 or less = not at all. A runner that is frozen between its look and the end does not see what comes meanwhile.
func (r *Run) overdue(id ID, l *Log, stored time.Time) time.Duration {
	ending := r.ending(id, l)
	return ending.Sub(stored) - r.Limits.Decision - r.frozen("agent-runner", stored, ending)
}

// ending is when a log's terminal event was written: as the runner marked it, by the clock of the machine, or else as
// the event says, which may be by a clock that is wrong.
func (r *Run) ending(id ID, l *Log) time.Time {
	last := l.Last()
	for _, m := range r.Marks {
		if marked, ok := logOf(m.Subject); m.What == MarkEnding && ok && marked == id && m.Epoch == last.Epoch {
			return m.At
		}
	}
	events, err := last.Events()
	if err != nil || len(events) == 0 {
		return last.Time // I2 reports it
	}
	return events[len(events)-1].Time
}

// frozen is how long processes of a kind did not run between two times, because the nemesis had stopped them.
func (r *Run) frozen(kind string, from, to time.Time) time.Duration {
	total := time.Duration(0)
	for _, f := range r.of(oplog.Fault) {
		if !strings.HasPrefix(f.Fault, "freeze") || !strings.Contains(f.Target, kind) {
			continue
		}
		begin, end := r.Begin.Add(f.At), r.Begin.Add(f.At+f.Took)
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		total += max(0, end.Sub(begin))
	}
	return total
}
