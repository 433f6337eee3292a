package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// SessionCwd returns the folder of the session's last task; ErrNotFound without such a session.
func (s *Store) SessionCwd(ctx context.Context, sessionID string) (cwd string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT cwd FROM sessions WHERE id = $1", sessionID).Scan(&cwd)
	if errors.Is(err, sql.ErrNoRows) {
		return "", ErrNotFound
	}
	return cwd, describe(err, "read session "+sessionID)
}

func useSession(ctx context.Context, tx *sql.Tx, sessionID, cwd string, at time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, cwd, used_at) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET cwd = excluded.cwd, used_at = excluded.used_at`, sessionID, cwd, millis(at))
	return err
}

// Log gives the events of a session, in order, and the number of the last.
func (s *Store) Log(ctx context.Context, sessionID string) (events []event.Event, last int64, err error) {
	lines, err := collect(ctx, s.db, func(rows *sql.Rows) (l Line, err error) { return l, rows.Scan(&l.N, &l.Text) },
		"SELECT n, line FROM log WHERE session_id = $1 ORDER BY n", sessionID)
	if err != nil {
		return nil, 0, fmt.Errorf("read session %s: %w", sessionID, err)
	}
	events = make([]event.Event, len(lines))
	for i, l := range lines {
		if events[i], err = event.Decode([]byte(l.Text)); err != nil {
			return nil, 0, fmt.Errorf("read session %s, line %d: %w", sessionID, l.N, err)
		}
		last = l.N
	}
	return events, last, nil
}

// PutObject keeps a payload of a session.
func (s *Store) PutObject(ctx context.Context, sessionID, objectID string, data []byte) error {
	_, err := s.db.ExecContext(ctx, "INSERT OR REPLACE INTO objects (session_id, id, data) VALUES ($1, $2, $3)", sessionID, objectID, data)
	return describe(err, "store an object of session "+sessionID)
}

// Object gives a payload of a session.
func (s *Store) Object(ctx context.Context, sessionID, objectID string) (data []byte, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT data FROM objects WHERE session_id = $1 AND id = $2", sessionID, objectID).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return data, describe(err, "read an object of session "+sessionID)
}
