package sqlstore

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// flush writes what a batch changed. The counts of bytes come last: processes wait for each other from there to the commit.
func (b batch) flush(ctx context.Context, f *fold) error {
	bytes := counts{}
	if err := b.countMoved(ctx, f, bytes); err != nil {
		return err
	}
	for _, c := range f.cuts {
		if err := b.cut(ctx, c, f.requests[Key{c.Tenant, c.RequestID}].owner, bytes); err != nil {
			return err
		}
	}
	if err := b.insert(ctx, threadsTable(), threadRows(f, bytes)); err != nil {
		return err
	}
	if err := b.insert(ctx, requestsTable(), requestRows(f)); err != nil {
		return err
	}
	if err := b.insert(ctx, inputsTable(), inputRows(f, bytes)); err != nil {
		return err
	}
	if err := b.insert(ctx, framesTable(), frameRows(f, bytes)); err != nil {
		return err
	}
	for _, thread := range f.purged {
		if err := b.purge(ctx, thread, bytes); err != nil {
			return err
		}
	}
	return b.insert(ctx, storedBytesTable(), bytes.rows())
}

// cut removes the rows of a request that hold events from c.N on.
func (b batch) cut(ctx context.Context, c store.Cut, owner string, bytes counts) error {
	const from = ` FROM frames WHERE tenant = $1 AND request_id = $2 AND last_n >= $3`
	args := []any{c.Tenant, c.RequestID, int64(c.N)}
	var size int64
	err := b.tx.QueryRowContext(ctx, `SELECT CAST(coalesce(sum(octet_length(lines)), 0) AS BIGINT)`+from, args...).Scan(&size)
	if err != nil {
		return err
	}
	bytes.add(c.Tenant, owner, -size)
	_, err = b.tx.ExecContext(ctx, `DELETE`+from, args...)
	return err
}

// purge removes what a deleted thread held. The requests stay as tombstones.
func (b batch) purge(ctx context.Context, thread Key, bytes counts) error {
	if err := b.countPurged(ctx, thread, bytes); err != nil {
		return err
	}
	const frames = `DELETE FROM frames WHERE tenant = $1 AND request_id IN (
		SELECT request_id FROM requests WHERE tenant = $1 AND thread_id = $2)`
	if _, err := b.tx.ExecContext(ctx, frames, thread.Tenant, thread.ID); err != nil {
		return err
	}
	const requests = `UPDATE requests SET deleted = TRUE, agent_id = '', owner = '', idx = -1, accepted = FALSE,
		input = '', title = '', status = 'queued', next_n = 0, incarnation = '', created_at = 0, ended_at = 0
		WHERE tenant = $1 AND thread_id = $2 AND NOT deleted`
	_, err := b.tx.ExecContext(ctx, requests, thread.Tenant, thread.ID)
	return err
}

func (b batch) insert(ctx context.Context, t Table, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	return b.dialect.Insert(ctx, b.tx, t, rows)
}

func threadRows(f *fold, bytes counts) [][]any {
	var rows [][]any
	for _, t := range f.threads {
		if t.dirty {
			bytes.add(t.key.Tenant, t.counted.owner, -int64(t.counted.bytes))
			bytes.add(t.key.Tenant, t.owner, int64(len(t.session)))
			rows = append(rows, []any{
				t.key.Tenant, t.key.ID, t.owner, t.agentID, t.title, int64(t.titleIndex), int64(t.last), t.lastRequestID,
				t.created, t.updated, t.deleted, t.session,
			})
		}
	}
	return rows
}

func requestRows(f *fold) [][]any {
	var rows [][]any
	for _, r := range f.requests {
		if r.dirty {
			rows = append(rows, []any{
				r.key.Tenant, r.key.ID, r.threadID, r.agentID, r.owner, int64(r.index), r.accepted, r.title,
				string(r.status), int64(r.next), r.incarnation, r.created, r.ended, r.deleted,
			})
		}
	}
	return rows
}

func inputRows(f *fold, bytes counts) [][]any {
	rows := make([][]any, 0, len(f.inputs))
	for k, in := range f.inputs {
		bytes.add(k.Tenant, f.requests[k].owner, int64(len(in.messages)))
		rows = append(rows, []any{k.Tenant, k.ID, in.messages, in.bodyHash})
	}
	return rows
}

func frameRows(f *fold, bytes counts) [][]any {
	joined := join(f.rows)
	rows := make([][]any, len(joined))
	for i, r := range joined {
		lines := event.PackLines(nil, r.part.Lines)
		bytes.add(r.key.Tenant, f.requests[r.key].owner, int64(len(lines)))
		rows[i] = []any{
			r.key.Tenant, r.key.ID, int64(r.part.Next() - 1), int64(r.part.First), r.part.Incarnation,
			event.PackNames(r.part.Names), r.beyond, r.part.Terminal(), r.earliest, r.latest, micros(r.part.Time),
			lines,
		}
	}
	return rows
}
