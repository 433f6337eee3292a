package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// Apply stores entries, and the progress of the projection, in one transaction: it loads the rows that they touch, folds
// the entries into them in memory, and writes what changed, a few statements a batch however large it is.
func (s *Store) Apply(ctx context.Context, entries []store.Entry, known store.Known) (store.Result, error) {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return store.Result{}, s.explain(err, "begin")
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it says so, before it another error is on its way
	b := batch{Store: s, tx: tx}
	result, err := b.apply(ctx, entries)
	if err != nil {
		return store.Result{}, s.explain(err, "store a batch")
	}
	if result.Progress, err = b.advance(ctx, known); err != nil {
		return store.Result{}, s.explain(err, "store the progress of a batch")
	}
	if err := tx.Commit(); err != nil {
		return store.Result{}, s.explain(err, "commit a batch")
	}
	return result, nil
}

// batch is one transaction.
type batch struct {
	*Store
	tx *sql.Tx
}

func (b batch) apply(ctx context.Context, entries []store.Entry) (store.Result, error) {
	f, err := b.load(ctx, entries)
	if err != nil {
		return store.Result{}, err
	}
	result := store.Result{Errors: make([]error, len(entries))}
	todo := make([]int, len(entries))
	for i := range todo {
		todo[i] = i
	}
	// What a frame waits for may come after it in the same batch, so holes are tried again while that helps.
	for len(todo) > 0 {
		var holes []int
		for _, i := range todo {
			err := f.entry(entries[i])
			result.Errors[i] = err
			switch {
			case errors.Is(err, store.ErrHole):
				holes = append(holes, i)
			case err != nil && !errors.Is(err, store.ErrStale):
				return store.Result{}, err
			}
		}
		if len(holes) == len(todo) {
			break
		}
		todo = holes
	}
	result.Events, result.Cuts = f.events(), f.cuts
	return result, b.flush(ctx, f)
}

// load reads, and locks where writers run side by side, the requests and threads that entries touch: requests first, in
// the order of their keys, then threads, so that two processes seldom wait for each other.
func (b batch) load(ctx context.Context, entries []store.Entry) (*fold, error) {
	f := &fold{requests: map[Key]*request{}, threads: map[Key]*thread{}, inputs: map[Key]input{}}
	f.stored = func(k Key, n uint64) (event.Frame, error) { return b.stored(ctx, k, n) }
	requests, records := map[Key]bool{}, map[Key]bool{}
	telling := map[Key]bool{} // the requests with changes for their threads: most frames have none
	for _, e := range entries {
		if e.RequestID != "" {
			requests[Key{e.Tenant, e.RequestID}] = true
		}
		if e.Accepted != nil || e.Frame != nil && slices.ContainsFunc(e.Frame.Names, event.Name.IsTerminal) {
			telling[Key{e.Tenant, e.RequestID}] = true
		}
		if e.Thread != nil || e.Session != nil {
			records[Key{e.Tenant, e.ThreadID}] = true
		}
		if e.Thread != nil && e.Thread.RequestID != "" {
			requests[Key{e.Tenant, e.Thread.RequestID}] = true
			telling[Key{e.Tenant, e.Thread.RequestID}] = true
		}
	}
	if err := b.loadRequests(ctx, f, sorted(requests)); err != nil {
		return nil, err
	}
	if err := b.reserve(ctx, threadsTable(), sorted(records)); err != nil {
		return nil, err
	}
	threads := maps.Clone(records)
	for _, e := range entries {
		if e.Accepted != nil {
			threads[Key{e.Tenant, e.Accepted.ThreadID}] = true
		}
	}
	for k, r := range f.requests {
		if r.threadID != "" && telling[k] {
			threads[Key{k.Tenant, r.threadID}] = true
		}
	}
	if err := b.scanThreads(ctx, f, sorted(threads)); err != nil {
		return nil, err
	}
	for k := range records {
		if f.threads[k] == nil {
			f.threads[k] = newThread(k)
		}
	}
	return f, nil
}

func (b batch) loadRequests(ctx context.Context, f *fold, keys []Key) error {
	if err := b.scanRequests(ctx, f, keys); err != nil {
		return err
	}
	missing := slices.DeleteFunc(keys, func(k Key) bool { return f.requests[k] != nil })
	if b.dialect.Locks && len(missing) > 0 {
		if err := b.reserve(ctx, requestsTable(), missing); err != nil {
			return err
		}
		return b.scanRequests(ctx, f, missing)
	}
	for _, k := range missing {
		f.requests[k] = newRequest(k)
	}
	return nil
}

// reserve inserts rows that can be locked, for keys without a row.
func (b batch) reserve(ctx context.Context, t Table, keys []Key) error {
	if !b.dialect.Locks || len(keys) == 0 {
		return nil
	}
	rows := make([][]any, len(keys))
	for i, k := range keys {
		rows[i] = []any{k.Tenant, k.ID}
	}
	return b.dialect.Insert(ctx, b.tx, t.reservation(), rows)
}

func (b batch) scanRequests(ctx context.Context, f *fold, keys []Key) error {
	query := `SELECT x.tenant, x.request_id, x.thread_id, x.agent_id, x.owner, x.idx, x.accepted, x.title, x.status,
		x.next_n, x.incarnation, x.created_at, x.ended_at, x.deleted
		FROM ` + b.dialect.Keys + ` k JOIN requests x ON x.tenant = k.tenant AND x.request_id = k.id`
	return b.scan(ctx, query, "x.tenant, x.request_id", keys, func(rows *sql.Rows) error {
		var r request
		err := rows.Scan(&r.key.Tenant, &r.key.ID, &r.threadID, &r.agentID, &r.owner, &r.index, &r.accepted, &r.title,
			&r.status, &r.next, &r.incarnation, &r.created, &r.ended, &r.deleted)
		r.counted, r.held = r.owner, r.next > 0 || r.accepted
		f.requests[r.key] = &r
		return err
	})
}

func (b batch) scanThreads(ctx context.Context, f *fold, keys []Key) error {
	query := `SELECT x.tenant, x.thread_id, x.owner, x.agent_id, x.title, x.title_idx, x.last_idx, x.last_request_id,
		x.created_at, x.updated_at, x.deleted, x.session
		FROM ` + b.dialect.Keys + ` k JOIN threads x ON x.tenant = k.tenant AND x.thread_id = k.id`
	return b.scan(ctx, query, "x.tenant, x.thread_id", keys, func(rows *sql.Rows) error {
		var t thread
		err := rows.Scan(&t.key.Tenant, &t.key.ID, &t.owner, &t.agentID, &t.title, &t.titleIndex, &t.last,
			&t.lastRequestID, &t.created, &t.updated, &t.deleted, &t.session)
		t.counted = noted{t.owner, len(t.session)}
		f.threads[t.key] = &t
		return err
	})
}

func (b batch) scan(ctx context.Context, query, order string, keys []Key, one func(*sql.Rows) error) error {
	if len(keys) == 0 {
		return nil
	}
	if b.dialect.Locks {
		query += " ORDER BY " + order + " FOR UPDATE OF x"
	}
	return each(ctx, b.tx, query, b.dialect.KeyArgs(keys), one)
}

// stored returns the row that contains an event; no events without one.
func (b batch) stored(ctx context.Context, k Key, n uint64) (part event.Frame, err error) {
	c := selection(ofRequest).and("f.tenant = ?", k.Tenant).and("f.request_id = ?", k.ID)
	c.and("f.first_n <= ?", int64(n)).and("f.last_n >= ?", int64(n))
	_, err = c.frames(ctx, b.tx, "f.last_n", 1, func(_ origin, f event.Frame) bool {
		part = f
		part.Lines = bytes.Clone(f.Lines)
		return false
	})
	return part, err
}

func sorted(keys map[Key]bool) []Key {
	return slices.SortedFunc(maps.Keys(keys), Key.compare)
}
