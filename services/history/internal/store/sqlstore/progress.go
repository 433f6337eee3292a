package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/agentbus/agentbus/services/history/internal/store"
)

const selectProgress = `SELECT incarnation, through, target, version FROM progress`

// scanProgress reads the only row; the zero value without one.
func scanProgress(row *sql.Row) (p store.Progress, err error) {
	err = row.Scan(&p.Incarnation, &p.Through, &p.Target, &p.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Progress{}, nil
	}
	return p, err
}

// Progress returns how far the projection has come.
func (s *Store) Progress(ctx context.Context) (store.Progress, error) {
	p, err := scanProgress(s.read.QueryRowContext(ctx, selectProgress))
	if err != nil {
		return p, s.explain(err, "read the progress of the projection")
	}
	return p, nil
}

// Empty reports whether no thread and no request is stored.
func (s *Store) Empty(ctx context.Context) (empty bool, err error) {
	err = s.read.QueryRowContext(ctx,
		`SELECT NOT EXISTS (SELECT 1 FROM threads) AND NOT EXISTS (SELECT 1 FROM requests)`).Scan(&empty)
	if err != nil {
		return false, s.explain(err, "look whether the database is empty")
	}
	return empty, nil
}

// MoveProgress replaces the progress by what move makes of it, in one transaction.
func (s *Store) MoveProgress(ctx context.Context, move func(store.Progress) store.Progress) (store.Progress, error) {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return store.Progress{}, s.explain(err, "begin")
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it says so, before it another error is on its way
	is, err := batch{Store: s, tx: tx}.moveProgress(ctx, move)
	if err != nil {
		return store.Progress{}, s.explain(err, "write the progress of the projection")
	}
	if err := tx.Commit(); err != nil {
		return store.Progress{}, s.explain(err, "commit the progress of the projection")
	}
	return is, nil
}

func (b batch) moveProgress(ctx context.Context, move func(store.Progress) store.Progress) (store.Progress, error) {
	const first = `INSERT INTO progress (one, incarnation, through, target, version) VALUES (1, '', 0, 0, 0) ON CONFLICT (one) DO NOTHING`
	if _, err := b.tx.ExecContext(ctx, first); err != nil {
		return store.Progress{}, err
	}
	was, err := scanProgress(b.tx.QueryRowContext(ctx, selectProgress+b.forUpdate()))
	if err != nil {
		return was, err
	}
	is := move(was)
	if is == was {
		return was, nil
	}
	is.Version = was.Version + 1
	_, err = b.tx.ExecContext(ctx, `UPDATE progress SET incarnation = $1, through = $2, target = $3, version = $4`,
		is.Incarnation, int64(is.Through), int64(is.Target), is.Version)
	return is, err
}

func (b batch) forUpdate() string {
	if b.dialect.Locks {
		return " FOR UPDATE"
	}
	return ""
}

// advance records how far the stream is stored. It is the last statement of the transaction of the data, because processes
// wait for each other from here to the commit.
func (b batch) advance(ctx context.Context, known store.Known) (store.Progress, error) {
	p, err := scanProgress(b.tx.QueryRowContext(ctx, `UPDATE progress SET version = version + 1, through =
		CASE WHEN target > through OR through > $1 THEN through ELSE $1 END
		WHERE version >= $2 RETURNING incarnation, through, target, version`, int64(known.Through), known.Version))
	if err == nil && p == (store.Progress{}) && known.Version > 0 {
		return p, store.ErrReplaced
	}
	return p, err
}
