// Package check verifies the invariants of a run. It compares the operations of the clients, the stored data, and the
// journals of the tools, and trusts none of them alone.
package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// Run is the evidence of a run, taken after everything has come to rest.
type Run struct {
	Begin      time.Time // that the times of entries count from
	Entries    []oplog.Entry
	Logs       map[ID]*Log
	Threads    map[ID][]Thread // their records in order; the second part of the ID is the thread
	Executions []journal.Line
	Rows       map[ID]Row
	Stored     map[uint64]string // subjects of the EVENTS stream by sequence
	Marks      []Mark
	Resources  []Resource
	Panics     []string // what processes said before they broke down
	Told       []string // log lines that contain a secret
	Later      *Run     // the streams and executions after late posts, when the streams had forgotten this run; nil = none
	Views      []View   // what each route showed when everything had come to rest, and again later
	Limits     Limits
}

// Limits say how long things may take.
type Limits struct {
	Deadline  time.Duration // from the acceptance of a request to its terminal event
	Grace     time.Duration // after the record of an abort until no call of its request starts
	Decision  time.Duration // from the record of an abort, or steer, to a terminal event whose runner did not see it
	Refusal   time.Duration // after the end of a request until an abort of it is refused
	Heartbeat time.Duration // between two signs of life on an open stream, slack included
}

// ID names a request, or a thread, of a tenant.
type ID struct{ Tenant, Name string }

// Log is what the streams hold of one request.
type Log struct {
	Accepted   *record.Accepted // nil = without a record
	AcceptedAt time.Time
	Frames     []event.Frame // in the order of the stream
	Abort      *record.Abort
	AbortSeq   uint64
	AbortAt    time.Time                     // when its record was stored
	Started    map[string]record.ToolStarted // by call
	Results    map[string]record.ToolResult  // by call
	Steers     map[string]Steer              // by id
}

// Steer is the stored record of what a user said to a request that ran.
type Steer struct {
	Sequence uint64
	At       time.Time // when it was stored
}

// Last returns the newest frame, or a zero frame.
func (l *Log) Last() event.Frame {
	if l == nil || len(l.Frames) == 0 {
		return event.Frame{}
	}
	return l.Frames[len(l.Frames)-1]
}

// Terminal returns the name of the terminal event at the end of the log, or "".
func (l *Log) Terminal() event.Name {
	last := l.Last()
	if !last.Terminal() {
		return ""
	}
	return last.Names[len(last.Names)-1]
}

// Thread is a stored record of a thread.
type Thread struct {
	record.Thread
	Sequence uint64
}

// Row is what SQL holds of one request.
type Row struct {
	Status    string
	Next      uint64
	Lines     []byte // of all its frames, one after the other
	Broken    string // how its frames do not fit together
	Terminals int
}

// Mark is a line that a service left where something rare or important happened in it.
type Mark struct {
	What     string    `json:"what"`
	Subject  string    `json:"subject,omitempty"`
	Sequence uint64    `json:"sequence,omitzero"`
	Epoch    uint64    `json:"epoch,omitzero"`
	At       time.Time `json:"at,omitzero"`
}

// Resource is something that a run must give back.
type Resource struct {
	Of, Name      string // process, and the kind of resource
	Before, After float64
	Slack         float64  // growth that does not count as a leak
	New           []string // which of them were not there before, where that is known
}

// Violation is an invariant that does not hold.
type Violation struct {
	Invariant string // I1 to I21
	ID        ID     // the request, or thread; zero = the whole run
	Text      string
}

func (v Violation) String() string {
	if v.ID == (ID{}) {
		return v.Invariant + ": " + v.Text
	}
	return fmt.Sprintf("%s: %s/%s: %s", v.Invariant, v.ID.Tenant, v.ID.Name, v.Text)
}

// Invariants are all of them, in order, with what each says.
func Invariants() []Invariant {
	return []Invariant{
		{"I1", "an accepted request has exactly one terminal event, the last of its log, in time", (*Run).terminals},
		{"I2", "events are numbered from 0 without gap or repetition; epochs grow with claims alone", (*Run).order},
		{"I3", "what a client sees over all its connections is the log, or the start of it", (*Run).sessions},
		{"I4", "what was acknowledged is stored", (*Run).acknowledged},
		{"I5", "SQL holds what the log holds", (*Run).tables},
		{"I6", "a request that was taken is never lost; one key makes one request; a steer is read once", (*Run).posts},
		{"I7", "an unsafe call runs at most once, others at least once, none after an abort; each has one result", (*Run).executions},
		{"I8", "an action is resolved once; what was allowed runs, and nothing else", (*Run).actions},
		{"I9", "requests on one thread do not overlap", (*Run).threads},
		{"I10", "an abort that was taken ends the request, unless it had ended", (*Run).aborts},
		{"I11", "no tenant sees anything of another, and no log a secret", (*Run).borders},
		{"I12", "everything is given back, and no process breaks down", (*Run).resources},
		{"I13", "open streams show life, and none is cut within an event by an orderly stop", (*Run).life},
		{"I14", "every block starts once, has its deltas in order, and is stopped before its request ends", (*Run).stages},
		{"I15", "a request says what its script prescribes, each step once, and its end repeats that", (*Run).contents},
		{"I16", "the messages of a thread are what its events say", (*Run).messages},
		{"I17", "every route shows the same, through every gateway, and after the stream has forgotten it", (*Run).views},
		{"I18", "what an agent does that was called shows once where it was called, and it ends with its caller", (*Run).trees},
		{"I19", "all readers of a thread or session, by every route, see the same events in the same order", (*Run).watches},
		{"I20", "what a remote agent does shows once in its request; a task of the hub is given once, and ends", (*Run).remotes},
		{"I21", "what the streams have forgotten stays known: no key makes it run again, and its thread takes further requests", (*Run).late},
	}
}

// Invariant is one of them. That rare paths were taken at all is a matter of many runs: see [Run.Sometimes].
type Invariant struct {
	Name  string
	Says  string
	check func(*Run) []Violation
}

// Check returns every violation, by invariant.
func (r *Run) Check() []Violation {
	var found []Violation
	for _, invariant := range Invariants() {
		for _, v := range invariant.check(r) {
			v.Invariant = invariant.Name
			found = append(found, v)
		}
	}
	return found
}

// violation is one whose invariant is filled in by Check.
func violation(id ID, format string, args ...any) Violation {
	return Violation{ID: id, Text: fmt.Sprintf(format, args...)}
}

// each calls visit for the log of every request, sorted, so that reports can be compared.
func (r *Run) each(visit func(ID, *Log) []Violation) []Violation {
	var found []Violation
	for _, id := range sorted(r.Logs) {
		found = append(found, visit(id, r.Logs[id])...)
	}
	return found
}

func sorted[V any](m map[ID]V) []ID {
	ids := make([]ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int {
		return strings.Compare(a.Tenant+"/"+a.Name, b.Tenant+"/"+b.Name)
	})
	return ids
}

// of returns the entries of one operation.
func (r *Run) of(op oplog.Op) []oplog.Entry {
	var found []oplog.Entry
	for _, e := range r.Entries {
		if e.Op == op {
			found = append(found, e)
		}
	}
	return found
}
