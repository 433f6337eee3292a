package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// Event is an event of a task as it is sent.
type Event struct {
	N    uint64
	Name string
	Data string
}

// Line is an event of a session's log.
type Line struct {
	N    int64
	Text string
}

// Batch is what a task has done since the batch before.
type Batch struct {
	Task   remoteagent.Task // as it now is
	Events []Event
	Lines  []Line // of the session's log
}

// Append stores a batch, all or nothing.
func (s *Store) Append(ctx context.Context, b Batch) error {
	task, err := json.Marshal(b.Task)
	if err != nil {
		return fmt.Errorf("encode task %s: %w", b.Task.TaskID, err)
	}
	var ended any
	if b.Task.Status.Finished() {
		ended = millis(b.Task.CompletedAt)
	}
	err = s.within(ctx, func(tx *sql.Tx) error {
		if err := insertEvents(ctx, tx, b); err != nil {
			return err
		}
		if err := insertLines(ctx, tx, b); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE tasks SET status = $1, task = $2, ended_at = $3 WHERE id = $4",
			string(b.Task.Status), string(task), ended, b.Task.TaskID)
		if err != nil || ended == nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE sessions SET used_at = $1 WHERE id = $2", ended, b.Task.SessionID)
		return err
	})
	return describe(err, "store what task "+b.Task.TaskID+" has done")
}

func insertEvents(ctx context.Context, tx *sql.Tx, b Batch) (err error) {
	if len(b.Events) == 0 {
		return nil
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO events (task_id, n, name, data) VALUES ($1, $2, $3, $4)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for _, e := range b.Events {
		if _, err := insert.ExecContext(ctx, b.Task.TaskID, int64(e.N), e.Name, e.Data); err != nil { //nolint:gosec // no task has 2^63 events
			return err
		}
	}
	return nil
}

func insertLines(ctx context.Context, tx *sql.Tx, b Batch) (err error) {
	if len(b.Lines) == 0 {
		return nil
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO log (session_id, n, line) VALUES ($1, $2, $3)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for _, l := range b.Lines {
		if _, err := insert.ExecContext(ctx, b.Task.SessionID, l.N, l.Text); err != nil {
			return err
		}
	}
	return nil
}

// Events returns at most limit events of a task after number after, in order.
func (s *Store) Events(ctx context.Context, taskID string, after uint64, limit int) ([]Event, error) {
	events, err := collect(ctx, s.db, scanEvent,
		"SELECT n, name, data FROM events WHERE task_id = $1 AND n > $2 ORDER BY n LIMIT $3",
		taskID, int64(min(after, 1<<62)), limit)
	return events, describe(err, "read events of task "+taskID)
}

// LastEvent returns the newest event of a task; N is 0 without one.
func (s *Store) LastEvent(ctx context.Context, taskID string) (Event, error) {
	events, err := collect(ctx, s.db, scanEvent,
		"SELECT n, name, data FROM events WHERE task_id = $1 ORDER BY n DESC LIMIT 1", taskID)
	if err != nil || len(events) == 0 {
		return Event{}, describe(err, "read the newest event of task "+taskID)
	}
	return events[0], nil
}

// maxTail is how many events [Store.Tail] gives at most.
const maxTail = 10_000

// Tail gives the newest events of a task, all of the given name: those behind its newest event of another name, in order.
func (s *Store) Tail(ctx context.Context, taskID, name string) ([]Event, error) {
	events, err := collect(ctx, s.db, scanEvent, `SELECT n, name, data FROM events WHERE task_id = $1 AND n >
		(SELECT coalesce(max(n), 0) FROM events WHERE task_id = $1 AND name <> $2) ORDER BY n DESC LIMIT $3`, taskID, name, maxTail)
	slices.Reverse(events)
	return events, describe(err, "read the newest events of task "+taskID)
}

func scanEvent(rows *sql.Rows) (e Event, err error) { return e, rows.Scan(&e.N, &e.Name, &e.Data) }

// StartCall remembers that a call of an unsafe tool begins, and reports whether it has not begun before.
func (s *Store) StartCall(ctx context.Context, taskID, callID string) (first bool, err error) {
	result, err := s.db.ExecContext(ctx, "INSERT OR IGNORE INTO calls (task_id, call_id) VALUES ($1, $2)", taskID, callID)
	if err != nil {
		return false, fmt.Errorf("note that call %s begins: %w", callID, err)
	}
	n, err := result.RowsAffected()
	return n == 1, describe(err, "note that call "+callID+" begins")
}
