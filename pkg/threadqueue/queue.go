// Package threadqueue decides which request of a thread runs next.
//
// Each request of a thread has a record, which is appended to the thread by compare-and-set: the order of these records
// is the order in which the requests run. The oldest request that has not ended runs, or may start; the others wait. A
// request that may start needs a pointer, which makes a runner take it.
//
// Two rules guarantee progress. A sender that appends a record checks whether the requests before it have ended after
// the record is stored, and a runner looks for the next record after its terminal event is stored: so at least one of
// the two sends the pointer. And each process that finds the first request without a pointer sends one, because the
// process responsible for it may have crashed between two steps.
package threadqueue

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// Log stores what the queue reads and writes. A *bus.Bus is one.
type Log interface {
	// Thread returns the newest record of a thread, or record.ErrNotFound.
	Thread(ctx context.Context, tenant, threadID string) (record.ThreadRecord, error)
	// ThreadRecords yields the records of a thread with a sequence above after, in order.
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[record.ThreadRecord, error]
	// AdvanceThread appends a record if the newest one has sequence after (0 = none); record.ErrConflict otherwise.
	AdvanceThread(ctx context.Context, tenant string, next record.Thread, after uint64) (record.ThreadRecord, error)
	// Last returns the newest frame of a request's log, or record.ErrNotFound: no runner has begun the request.
	Last(ctx context.Context, log record.LogID) (event.Frame, error)
	// Accepted returns the record of a request, or record.ErrNotFound.
	Accepted(ctx context.Context, log record.LogID) (record.Accepted, error)
	// Start sends the pointer to a request that cannot have one.
	Start(ctx context.Context, a record.Accepted, index int) error
	// EnsurePointer sends the pointer to a request if it has none, and reports whether it did.
	EnsurePointer(ctx context.Context, a record.Accepted, index int) (sent bool, err error)
}

// MaxBehind bounds the records of a thread that are read to find those that have not ended.
const MaxBehind = 200

// Queue is the queue of every thread. It is safe for concurrent use.
type Queue struct {
	log Log
	now func() time.Time
}

// New returns a queue. The records that it writes have the time that now returns.
func New(log Log, now func() time.Time) *Queue { return &Queue{log: log, now: now} }

// Entry is a request of a thread that has not ended.
type Entry struct {
	record.ThreadRecord
	Accepted *record.Accepted // nil = a runner has begun it
}

// Entries returns the requests of a thread that have not ended, in their order. Newest is the newest record of the thread,
// a zero one if it has none.
func (q *Queue) Entries(ctx context.Context, tenant string, newest record.ThreadRecord) ([]Entry, error) {
	var entries []Entry
	for entry, err := range q.open(ctx, tenant, newest) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// open yields what Entries returns.
func (q *Queue) open(ctx context.Context, tenant string, newest record.ThreadRecord) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for stored, err := range q.recent(ctx, tenant, newest) {
			entry, ended := Entry{ThreadRecord: stored}, false
			if err == nil {
				entry, ended, err = q.look(ctx, tenant, stored)
			}
			if ended {
				continue
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// recent yields the records from the oldest one on whose request had not ended when the newest was written.
func (q *Queue) recent(ctx context.Context, tenant string, newest record.ThreadRecord) iter.Seq2[record.ThreadRecord, error] {
	return func(yield func(record.ThreadRecord, error) bool) {
		switch {
		case newest.RequestID == "":
			return
		case newest.Behind == 0:
			yield(newest, nil)
			return
		}
		for stored, err := range q.log.ThreadRecords(ctx, tenant, newest.ThreadID, 0) {
			if err == nil && stored.Index < newest.Index-newest.Behind {
				continue
			}
			if !yield(stored, err) || err != nil {
				return
			}
		}
	}
}

// look returns the entry of a record, or reports that its request has ended.
func (q *Queue) look(ctx context.Context, tenant string, stored record.ThreadRecord) (entry Entry, ended bool, err error) {
	entry.ThreadRecord = stored
	log := record.LogID{Tenant: tenant, RequestID: stored.RequestID}
	last, err := q.log.Last(ctx, log)
	if !errors.Is(err, record.ErrNotFound) {
		return entry, err == nil && last.Terminal(), err
	}
	accepted, err := q.log.Accepted(ctx, log)
	if errors.Is(err, record.ErrNotFound) {
		return entry, true, nil // the stream no longer has it, so it has ended
	}
	entry.Accepted = &accepted
	return entry, false, err
}

// EnsureFirst sends the pointer to the first of the entries, unless a runner has begun it or it has one. It reports whether
// it sent one.
func (q *Queue) EnsureFirst(ctx context.Context, entries []Entry) (sent bool, err error) {
	if len(entries) == 0 || entries[0].Accepted == nil {
		return false, nil
	}
	return q.log.EnsurePointer(ctx, *entries[0].Accepted, entries[0].Index)
}

// Next sends the pointer to the request of a thread that may start, if it lacks one, and reports whether it did. A runner
// calls it after the end of the request with an index; -1 looks at all requests.
func (q *Queue) Next(ctx context.Context, tenant, threadID string, index int) (sent bool, err error) {
	newest, err := q.log.Thread(ctx, tenant, threadID)
	if errors.Is(err, record.ErrNotFound) || err == nil && (newest.Deleted || newest.Index <= index) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for first, err := range q.open(ctx, tenant, newest) {
		if err != nil {
			return false, err
		}
		return q.EnsureFirst(ctx, []Entry{first})
	}
	return false, nil
}

// EnsurePointer sends the pointer to a request of a thread if it has none, at whatever position the request is. It
// reports whether it did. Use it for a request that a runner has begun, or that was aborted while it waited.
func (q *Queue) EnsurePointer(ctx context.Context, a record.Accepted) (sent bool, err error) {
	stored, found, err := q.find(ctx, a)
	if err != nil || !found {
		return false, err
	}
	return q.log.EnsurePointer(ctx, a, stored.Index)
}

// find returns the record of a request on its thread.
func (q *Queue) find(ctx context.Context, a record.Accepted) (stored record.ThreadRecord, found bool, err error) {
	for stored, err := range q.log.ThreadRecords(ctx, a.Tenant, a.ThreadID, 0) {
		if err != nil || stored.RequestID == a.RequestID {
			return stored, err == nil, err
		}
	}
	return record.ThreadRecord{}, false, nil
}

// Append makes a, which has its record, the next request of its thread, and sends its pointer if it may start. Newest
// is the newest record of the thread, a zero one if it has none; the error is record.ErrConflict if a newer one exists.
// Behind is as in record.Thread.
func (q *Queue) Append(ctx context.Context, newest record.ThreadRecord, a record.Accepted, behind int) error {
	next := record.Thread{
		ThreadID: a.ThreadID, Owner: a.Owner, AgentID: a.AgentID, RequestID: a.RequestID, At: q.now().UTC(),
		Behind: behind, Resolves: ActionIDs(a.Request),
	}
	if newest.ThreadID != "" {
		next.Index = newest.Index + 1
	}
	record, err := q.log.AdvanceThread(ctx, a.Tenant, next, newest.Sequence)
	if err != nil {
		return err
	}
	if behind == 0 {
		return q.log.Start(ctx, a, record.Index)
	}
	entries, err := q.Entries(ctx, a.Tenant, record)
	if err != nil {
		return err
	}
	_, err = q.EnsureFirst(ctx, entries)
	return err
}

// Resume reports whether a, which has its record, is on its thread, or has a log. If it is on its thread, the request that
// may start there gets its pointer.
func (q *Queue) Resume(ctx context.Context, newest record.ThreadRecord, a record.Accepted) (bool, error) {
	_, err := q.log.Last(ctx, record.LogID{Tenant: a.Tenant, RequestID: a.RequestID})
	if !errors.Is(err, record.ErrNotFound) {
		return err == nil, err
	}
	found := newest.RequestID == a.RequestID
	if !found && newest.ThreadID != "" {
		if _, found, err = q.find(ctx, a); err != nil {
			return false, err
		}
	}
	if !found {
		return false, nil
	}
	entries, err := q.Entries(ctx, a.Tenant, newest)
	if err != nil {
		return false, err
	}
	_, err = q.EnsureFirst(ctx, entries)
	return true, err
}

// ActionIDs returns the actions that a request brings results for.
func ActionIDs(r event.AgentRequest) []string {
	ids := make([]string, 0, len(r.Context.ActionResults))
	for _, result := range r.Context.ActionResults {
		ids = append(ids, result.ActionID)
	}
	return slices.Clip(ids)
}
