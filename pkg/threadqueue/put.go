package threadqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/agentbus/agentbus/pkg/record"
)

// Admission decides whether a request may join its thread, and keeps its record.
type Admission interface {
	// Thread returns the newest record of a's thread, a zero one if it has none, or why a may not use the thread.
	Thread(ctx context.Context, a record.Accepted) (record.ThreadRecord, error)
	// Admit returns the distance from a to the first of the entries (see Behind), 0 without entries, or why a may not
	// join.
	Admit(ctx context.Context, newest record.ThreadRecord, entries []Entry, a record.Accepted) (behind int, err error)
	// Record writes a's record, and returns the one that is stored, and whether another call wrote that.
	Record(ctx context.Context, a record.Accepted) (stored record.Accepted, again bool, err error)
	// Recorded returns the record that is stored of a, if there is one.
	Recorded(ctx context.Context, a record.Accepted) (stored record.Accepted, found bool, err error)
}

// Behind returns the distance from the next record of the thread to the record of the first entry.
func Behind(newest record.ThreadRecord, entries []Entry) int {
	return newest.Index + 1 - entries[0].Index
}

// Put makes a the next request of its thread. Recorded reports that a has its record. Put returns the record that is
// stored, and whether another call with the same id wrote it. It makes this number of attempts before it gives up, with
// record.ErrConflict, because others append to the thread at the same time. Each step may be repeated: Put continues
// where an earlier call for the same request has stopped.
func (q *Queue) Put(
	ctx context.Context, admission Admission, a record.Accepted, recorded bool, attempts int,
) (stored record.Accepted, again bool, err error) {
	for range attempts {
		newest, err := admission.Thread(ctx, a)
		if err != nil {
			return a, again, err
		}
		if recorded {
			if placed, err := q.Resume(ctx, newest, a); err != nil || placed {
				return a, again, err
			}
		}
		behind, err := q.admit(ctx, admission, newest, a)
		if err != nil {
			return q.refuse(ctx, admission, a, err)
		}
		if !recorded {
			recorded = true
			if a, again, err = admission.Record(ctx, a); err != nil {
				return a, again, err
			}
			if again {
				continue // where the other call is
			}
		}
		if err := q.Append(ctx, newest, a, behind); !errors.Is(err, record.ErrConflict) {
			return a, again, err
		}
	}
	return q.refuse(ctx, admission, a, record.ErrConflict)
}

func (q *Queue) admit(
	ctx context.Context, admission Admission, newest record.ThreadRecord, a record.Accepted,
) (behind int, err error) {
	entries, err := q.Entries(ctx, a.Tenant, newest)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(entries, func(e Entry) bool { return e.RequestID == a.RequestID }) {
		return 0, record.ErrConflict // another call has put it there
	}
	return admission.Admit(ctx, newest, entries, a)
}

// refuse returns the refusal, unless the same request is on its thread by now, because of another call or of an attempt
// whose answer was lost.
func (q *Queue) refuse(
	ctx context.Context, admission Admission, a record.Accepted, refusal error,
) (stored record.Accepted, again bool, err error) {
	stored, found, err := admission.Recorded(ctx, a)
	if err != nil {
		return a, false, err
	}
	if !found {
		return a, false, refusal
	}
	newest, err := admission.Thread(ctx, stored)
	if err != nil {
		return stored, true, err
	}
	placed, err := q.Resume(ctx, newest, stored)
	if err == nil && !placed {
		err = refusal
	}
	return stored, true, err
}
