package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
)

// The table stored_bytes holds how many bytes are stored, by tenant and owner. It is changed in the transaction of the data
// and by the difference alone, so that no count reads the rows again. The bytes are those of the columns frames.lines,
// requests.input and threads.session; an owner "" is that of requests of which only frames have come.

// counts is by how much a transaction changes the bytes that are stored, by tenant and owner.
type counts map[Key]int64

func (c counts) add(tenant, owner string, bytes int64) { c[Key{tenant, owner}] += bytes }

// rows are in the order of their keys, in which all processes lock them.
func (c counts) rows() [][]any {
	var rows [][]any
	for _, k := range slices.SortedFunc(maps.Keys(c), Key.compare) {
		if c[k] != 0 {
			rows = append(rows, []any{k.Tenant, k.ID, c[k]})
		}
	}
	return rows
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Tenant, other.Tenant), cmp.Compare(k.ID, other.ID))
}

// sizeOfRequest is what is stored of a row of requests, r.
const sizeOfRequest = `CAST(octet_length(r.input) + coalesce((SELECT sum(octet_length(f.lines)) FROM frames f
	WHERE f.tenant = r.tenant AND f.request_id = r.request_id), 0) AS BIGINT)`

// countMoved gives what is stored of requests to their owners where those are known only now: frames may come before the
// records that say whose they are. It must be called before anything is written.
func (b batch) countMoved(ctx context.Context, f *fold, bytes counts) error {
	moved := map[Key]bool{}
	for k, r := range f.requests {
		if r.held && r.owner != r.counted {
			moved[k] = true
		}
	}
	if len(moved) == 0 {
		return nil
	}
	query := `SELECT r.tenant, r.request_id, ` + sizeOfRequest + ` FROM ` + b.dialect.Keys + ` k
		JOIN requests r ON r.tenant = k.tenant AND r.request_id = k.id`
	return each(ctx, b.tx, query, b.dialect.KeyArgs(sorted(moved)), func(rows *sql.Rows) error {
		var k Key
		var size int64
		if err := rows.Scan(&k.Tenant, &k.ID, &size); err != nil {
			return err
		}
		r := f.requests[k]
		bytes.add(k.Tenant, r.counted, -size)
		bytes.add(k.Tenant, r.owner, size)
		return nil
	})
}

// countPurged takes what the requests of a thread hold off the counts. It locks them first: another process may store more
// of them at this moment.
func (b batch) countPurged(ctx context.Context, thread Key, bytes counts) error {
	const of = ` FROM requests r WHERE r.tenant = $1 AND r.thread_id = $2 AND NOT r.deleted`
	if b.dialect.Locks {
		if _, err := b.tx.ExecContext(ctx, `SELECT 1`+of+` ORDER BY r.request_id FOR UPDATE`, thread.Tenant, thread.ID); err != nil {
			return err
		}
	}
	query := `SELECT r.owner, ` + sizeOfRequest + of
	return each(ctx, b.tx, query, []any{thread.Tenant, thread.ID}, func(rows *sql.Rows) error {
		var owner string
		var size int64
		err := rows.Scan(&owner, &size)
		bytes.add(thread.Tenant, owner, -size)
		return err
	})
}

// Stored returns how many bytes are stored of an owner's threads, or with owner "" of a tenant's.
func (s *Store) Stored(ctx context.Context, tenant, owner string) (bytes int64, err error) {
	text, args := `SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM stored_bytes WHERE tenant = $1`, []any{tenant}
	if owner != "" {
		text, args = text+` AND owner = $2`, append(args, owner)
	}
	if err := s.read.QueryRowContext(ctx, text, args...).Scan(&bytes); err != nil {
		return 0, s.explain(err, "read how many bytes are stored")
	}
	return bytes, nil
}

// Recount counts all rows. Where writers run side by side, those that change a count wait until it has finished.
func (s *Store) Recount(ctx context.Context) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(err, "begin")
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it says so, before it another error is on its way
	statements := []string{
		`DELETE FROM stored_bytes`,
		`INSERT INTO stored_bytes (tenant, owner, bytes) SELECT tenant, owner, sum(bytes) FROM (
			SELECT r.tenant, r.owner, ` + sizeOfRequest + ` AS bytes FROM requests r WHERE NOT r.deleted
			UNION ALL SELECT tenant, owner, octet_length(session) FROM threads) AS x GROUP BY tenant, owner`,
	}
	if s.dialect.Locks {
		// A transaction that holds rows of the table has written its data; one that waits for the table has not committed them.
		statements = slices.Insert(statements, 0, `LOCK TABLE stored_bytes IN EXCLUSIVE MODE`)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return s.explain(err, "count the stored bytes")
		}
	}
	if err := tx.Commit(); err != nil {
		return s.explain(err, "commit the count of stored bytes")
	}
	return nil
}
