package check

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// The marks that invariants rest upon; the others are names of rare paths.
const (
	MarkAcknowledged = "acknowledged" // an append was, at this sequence of this subject
	MarkFenced       = "fenced"       // a writer of this epoch, by the subject's message at this sequence
	MarkEnding       = "ending"       // a writer of this epoch was given the terminal event at this time
)

// The rare paths: see [Run.Sometimes].
const (
	PathTakeover   = "takeover"
	PathAborted    = "aborted"
	PathConflict   = "action resolved twice at once"
	PathReplayed   = "POST without an answer, repeated"
	PathResumed    = "stream resumed"
	PathDiscarded  = "open block discarded"
	PathSteered    = "steer taken up"
	PathWaited     = "request waited on its thread"
	PathNeverRan   = "aborted before its turn"
	PathHandedOver = "handed over at a stop"
)

// Paths are the rare paths that many runs together must have taken, the marks of the services among them.
func Paths() []string {
	return []string{
		PathTakeover, PathAborted, PathConflict, PathReplayed, PathResumed, PathDiscarded,
		PathSteered, PathWaited, PathNeverRan, PathHandedOver, PathCalled, PathNested, PathAskedBelow, PathCutBelow, PathRejoined,
		PathRemote, PathRemoteTaken, PathTask, PathTaskAgain, PathCancelled, PathBothRoutes, PathOtherBody,
		PathLateKey, PathLateOther, PathLateThread, MarkFenced, "read-back", "in-process", "duplicate", "gap", "tail",
	}
}

// Sometimes is how often each rare path was taken.
func (r *Run) Sometimes() map[string]int {
	taken := map[string]int{}
	for _, m := range r.Marks {
		if m.What != MarkAcknowledged && m.What != MarkEnding {
			taken[m.What]++
		}
	}
	for _, l := range r.Logs {
		taken[PathTakeover] += Takeovers(l)
		if l.Terminal() == event.NameAborted {
			taken[PathAborted]++
		}
		if neverRan(l) {
			taken[PathNeverRan]++
		}
		for _, f := range l.Frames {
			taken[PathDiscarded] += strings.Count(string(f.Lines), `"discarded":true`)
			taken[PathSteered] += strings.Count(string(f.Lines), `"steerId":`)
			taken[PathHandedOver] += strings.Count(string(f.Lines), `"released":true`)
		}
	}
	r.countTrees(taken)
	r.countRetries(taken)
	r.countWatches(taken)
	r.countRemotes(taken)
	r.countLate(taken)
	for _, records := range r.Threads {
		for _, t := range records {
			if t.Behind > 0 {
				taken[PathWaited]++
			}
		}
	}
	unknown := map[string]bool{}
	for _, e := range r.Entries {
		switch {
		case e.Op == oplog.Fault:
			taken[e.Fault]++
		case e.Op == oplog.Post && e.Code == "invalid_action_id":
			taken[PathConflict]++
		case e.Op == oplog.Post && e.Status == 0 && e.Key != "":
			unknown[e.Key] = true
		case e.Op == oplog.Post && e.Status/100 == 2 && unknown[e.Key]:
			taken[PathReplayed]++
		case e.Op == oplog.Read && e.After != "" && e.Status == 200:
			taken[PathResumed]++
		}
	}
	return taken
}

// Takeovers counts the claims that were not a log's first.
func Takeovers(l *Log) int { return max(0, int(l.Last().Epoch)-1) } //nolint:gosec // a run has few claims

// resources is I12.
func (r *Run) resources() []Violation {
	var found []Violation
	for _, held := range r.Resources {
		if held.After <= held.Before+held.Slack {
			continue
		}
		text := fmt.Sprintf("%s holds %.0f %s after the run, and held %.0f before it",
			held.Of, held.After, held.Name, held.Before)
		if len(held.New) > 0 {
			text += "; new: " + strings.Join(held.New, ", ")
		}
		found = append(found, violation(ID{}, "%s", text))
	}
	for _, text := range r.Panics {
		found = append(found, violation(ID{}, "%s", text))
	}
	return found
}

// History writes everything that is known of a request, or thread.
func (r *Run) History(w io.Writer, id ID) {
	for _, e := range r.Entries {
		if e.Tenant == id.Tenant && (e.Request == id.Name || e.Thread == id.Name) {
			e.Body = ""
			line, err := json.Marshal(e, oplog.Seconds())
			if err == nil {
				_, _ = fmt.Fprintf(w, "  %s\n", line) // an error of the output cannot be reported
			}
		}
	}
	for _, t := range r.Threads[id] {
		_, _ = fmt.Fprintf(w, "  thread record %d: index %d, request %s, resolves %v\n", t.Sequence, t.Index, t.RequestID, t.Resolves)
	}
	l := r.Logs[id]
	if l == nil {
		return
	}
	if l.Accepted != nil {
		_, _ = fmt.Fprintf(w, "  accepted at %s, thread %s\n", r.since(l.AcceptedAt), l.Accepted.ThreadID)
	}
	for _, f := range l.Frames {
		_, _ = fmt.Fprintf(w, "  message %d at %s: epoch %d, events %d to %d: %s\n",
			f.Sequence, r.since(f.Time), f.Epoch, f.First, f.Next()-1, event.PackNames(f.Names))
	}
	if l.Abort != nil {
		_, _ = fmt.Fprintf(w, "  message %d at %s: abort\n", l.AbortSeq, r.since(l.AbortAt))
	}
	for callID, result := range l.Results {
		_, _ = fmt.Fprintf(w, "  result of %s: %s %s\n", callID, result.Status, result.Summary)
	}
	calls, runners := r.asked(), r.runners()
	for _, x := range r.Executions {
		if calls[x.Call].id == id || runners[x.Call] == id {
			_, _ = fmt.Fprintf(w, "  executed at %s: %s of %s, end %v\n", r.since(x.At), x.Call, x.Tool, x.Ended)
		}
	}
}

func (r *Run) since(at time.Time) string { return at.Sub(r.Begin).Round(time.Millisecond).String() }

// Unsettled returns what is not finished yet: requests without an end, and rows that lag their logs.
func (r *Run) Unsettled() []Violation { return append(r.terminals(), r.tables()...) }
