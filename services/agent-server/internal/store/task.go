package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// Entry is a task and all that it takes to run it.
type Entry struct {
	remoteagent.Task
	Assignment     remoteagent.Assignment
	Cwd            string // real path of the folder that it works in
	IdempotencyKey string // "" = none
	Answers        []remoteagent.Answer
}

// maxList is how many tasks one list has at most.
const maxList = 1000

const entryColumns = "task, assignment, cwd, coalesce(idempotency_key, ''), answers"

// Accept stores a new task, and its session. It fails when there is a task of the same idempotency key.
func (s *Store) Accept(ctx context.Context, e Entry) error {
	assignment, err := json.Marshal(e.Assignment)
	if err != nil {
		return fmt.Errorf("encode the assignment of task %s: %w", e.TaskID, err)
	}
	task, err := json.Marshal(e.Task)
	if err != nil {
		return fmt.Errorf("encode task %s: %w", e.TaskID, err)
	}
	err = s.within(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`INSERT INTO tasks (id, session_id, idempotency_key, status, cwd, assignment, task) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			e.TaskID, e.SessionID, key(e.IdempotencyKey), string(e.Status), e.Cwd, string(assignment), string(task))
		if err != nil {
			return err
		}
		return useSession(ctx, tx, e.SessionID, e.Cwd, e.CreatedAt)
	})
	return describe(err, "store task "+e.TaskID)
}

// key makes no key one that equals no other.
func key(idempotencyKey string) any {
	if idempotencyKey == "" {
		return nil
	}
	return idempotencyKey
}

// Task returns a task; [ErrGone] says that it is there no longer.
func (s *Store) Task(ctx context.Context, taskID string) (Entry, error) {
	e, err := scanEntry(s.db.QueryRowContext(ctx, "SELECT "+entryColumns+" FROM tasks WHERE id = $1", taskID))
	if !errors.Is(err, sql.ErrNoRows) {
		return e, describe(err, "read task "+taskID)
	}
	var at int64
	err = s.db.QueryRowContext(ctx, "SELECT removed_at FROM tombstones WHERE task_id = $1", taskID).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return Entry{}, ErrNotFound
	}
	if err != nil {
		return Entry{}, fmt.Errorf("look for task %s: %w", taskID, err)
	}
	return Entry{}, ErrGone
}

// Tasks gives the tasks that q selects, the newest first.
func (s *Store) Tasks(ctx context.Context, q remoteagent.Query) ([]remoteagent.Task, error) {
	where, args := []string{"1 = 1"}, []any{}
	if q.IdempotencyKey != "" {
		where, args = append(where, "idempotency_key = ?"), append(args, q.IdempotencyKey)
	}
	if q.Status != "" {
		where, args = append(where, "status = ?"), append(args, string(q.Status))
	}
	limit := maxList
	if q.Limit > 0 {
		limit = min(q.Limit, maxList)
	}
	tasks, err := collect(ctx, s.db, func(rows *sql.Rows) (task remoteagent.Task, err error) {
		var text string
		if err := rows.Scan(&text); err != nil {
			return task, err
		}
		return task, json.Unmarshal([]byte(text), &task)
	}, "SELECT task FROM tasks WHERE "+strings.Join(where, " AND ")+" ORDER BY n DESC LIMIT ?", append(args, limit)...)
	return tasks, describe(err, "list tasks")
}

// Unfinished gives the tasks that have not ended, the oldest first.
func (s *Store) Unfinished(ctx context.Context) ([]Entry, error) {
	entries, err := collect(ctx, s.db, scanRow,
		"SELECT "+entryColumns+" FROM tasks WHERE ended_at IS NULL ORDER BY n")
	return entries, describe(err, "list unfinished tasks")
}

// PutAnswers stores all answers to the actions of a task.
func (s *Store) PutAnswers(ctx context.Context, taskID string, answers []remoteagent.Answer) error {
	text, err := json.Marshal(answers)
	if err != nil {
		return fmt.Errorf("encode the answers to task %s: %w", taskID, err)
	}
	_, err = s.db.ExecContext(ctx, "UPDATE tasks SET answers = $1 WHERE id = $2", string(text), taskID)
	return describe(err, "store the answers to task "+taskID)
}

// Unreported lists finished tasks that were not reported to the hub, the oldest first.
func (s *Store) Unreported(ctx context.Context, limit int) ([]Entry, error) {
	entries, err := collect(ctx, s.db, scanRow,
		"SELECT "+entryColumns+" FROM tasks WHERE told = 0 AND ended_at IS NOT NULL ORDER BY ended_at LIMIT $1", limit)
	return entries, describe(err, "list tasks to report to the hub")
}

// MarkReported stores that the hub has confirmed the end of a task.
func (s *Store) MarkReported(ctx context.Context, taskID string) error {
	_, err := s.db.ExecContext(ctx, "UPDATE tasks SET told = 1 WHERE id = $1", taskID)
	return describe(err, "mark as reported task "+taskID)
}

// Sweep removes tasks that ended before finished, sessions that were last used before idle, and tombstones older than
// buried. It returns how many tasks it has removed.
func (s *Store) Sweep(ctx context.Context, finished, idle, buried time.Time) (removed int64, err error) {
	const old = "SELECT id FROM tasks WHERE ended_at < $1"
	const unused = "SELECT id FROM sessions WHERE used_at < $1 AND id NOT IN (SELECT session_id FROM tasks WHERE ended_at IS NULL)"
	err = s.within(ctx, func(tx *sql.Tx) error {
		steps := []struct {
			query string
			args  []any
		}{
			{"INSERT OR REPLACE INTO tombstones (task_id, removed_at) SELECT id, $2 FROM tasks WHERE ended_at < $1",
				[]any{millis(finished), millis(time.Now())}},
			{"DELETE FROM events WHERE task_id IN (" + old + ")", []any{millis(finished)}},
			{"DELETE FROM calls WHERE task_id IN (" + old + ")", []any{millis(finished)}},
			{"DELETE FROM tasks WHERE ended_at < $1", []any{millis(finished)}},
			{"DELETE FROM log WHERE session_id IN (" + unused + ")", []any{millis(idle)}},
			{"DELETE FROM objects WHERE session_id IN (" + unused + ")", []any{millis(idle)}},
			{"DELETE FROM sessions WHERE id IN (" + unused + ")", []any{millis(idle)}},
			{"DELETE FROM tombstones WHERE removed_at < $1", []any{millis(buried)}},
		}
		for i, step := range steps {
			result, err := tx.ExecContext(ctx, step.query, step.args...)
			if err != nil {
				return err
			}
			if i == 0 {
				removed, err = result.RowsAffected()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return removed, describe(err, "remove old tasks")
}

func scanRow(rows *sql.Rows) (Entry, error) { return scanEntry(rows) }

func scanEntry(row interface{ Scan(into ...any) error }) (e Entry, err error) {
	var task, assignment, answers string
	if err := row.Scan(&task, &assignment, &e.Cwd, &e.IdempotencyKey, &answers); err != nil {
		return Entry{}, err
	}
	if err := json.Unmarshal([]byte(task), &e.Task); err != nil {
		return Entry{}, fmt.Errorf("decode a task: %w", err)
	}
	if err := json.Unmarshal([]byte(assignment), &e.Assignment); err != nil {
		return Entry{}, fmt.Errorf("decode the assignment of task %s: %w", e.TaskID, err)
	}
	if err := json.Unmarshal([]byte(answers), &e.Answers); err != nil {
		return Entry{}, fmt.Errorf("decode the answers to task %s: %w", e.TaskID, err)
	}
	return e, nil
}

// describe says what was tried; nil stays nil.
func describe(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
