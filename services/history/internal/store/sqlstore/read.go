package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json"
)

const threadColumns = `SELECT thread_id, agent_id, owner, title, last_idx, last_request_id, created_at, updated_at,
	session, deleted FROM threads WHERE (last_idx >= 0 OR session <> '' OR deleted)`

// Thread returns a thread, or store.ErrNotFound.
func (s *Store) Thread(ctx context.Context, tenant, threadID string) (historyapi.Session, error) {
	threads, err := s.threads(ctx, threadColumns+` AND tenant = $1 AND thread_id = $2`, tenant, threadID)
	if err != nil {
		return historyapi.Session{}, err
	}
	if len(threads) == 0 {
		return historyapi.Session{}, fmt.Errorf("thread %s: %w", threadID, store.ErrNotFound)
	}
	if threads[0].deleted {
		return historyapi.Session{}, fmt.Errorf("thread %s: %w", threadID, store.ErrDeleted)
	}
	return threads[0].Session, nil
}

// Threads lists an owner's threads, the newest change first, without those on which agents work for others.
func (s *Store) Threads(
	ctx context.Context, tenant, owner string, after store.ThreadPosition, limit int,
) ([]historyapi.Session, error) {
	text, args := threadColumns+` AND NOT deleted AND tenant = $1 AND owner = $2 AND substr(thread_id, 1, 4) <> '`+id.Subthread+`_'`,
		[]any{tenant, owner, limit}
	if after != (store.ThreadPosition{}) {
		text, args = text+` AND (updated_at, thread_id) < ($4, $5)`, append(args, micros(after.UpdatedAt), after.ThreadID)
	}
	rows, err := s.threads(ctx, text+` ORDER BY updated_at DESC, thread_id DESC LIMIT $3`, args...)
	threads := make([]historyapi.Session, len(rows))
	for i, t := range rows {
		threads[i] = t.Session
	}
	return threads, err
}

// threadRow is a thread or its tombstone.
type threadRow struct {
	historyapi.Session
	deleted bool
}

func (s *Store) threads(ctx context.Context, text string, args ...any) ([]threadRow, error) {
	var threads []threadRow
	err := each(ctx, s.read, text, args, func(rows *sql.Rows) error {
		var t threadRow
		var last int
		var created, updated int64
		var session string
		err := rows.Scan(&t.ThreadID, &t.AgentID, &t.Owner, &t.Title, &last, &t.LastRequestID, &created, &updated,
			&session, &t.deleted)
		if err != nil {
			return err
		}
		t.Requests, t.CreatedAt, t.UpdatedAt = last+1, moment(created), moment(updated)
		if session != "" {
			if err := json.Unmarshal([]byte(session), &t.Record); err != nil {
				return fmt.Errorf("session of thread %s: %w", t.ThreadID, err)
			}
			t.Title = cmp.Or(t.Record.Name, t.Title)
		}
		threads = append(threads, t)
		return nil
	})
	if err != nil {
		return nil, s.explain(err, "read threads")
	}
	return threads, nil
}

// A request without a thread is one of which only frames have arrived so far: its owner is not known yet.
const requestColumns = `SELECT request_id, thread_id, agent_id, owner, idx, status, created_at, ended_at, accepted, input,
	next_n, deleted, body_hash FROM requests WHERE thread_id <> '' AND tenant = $1`

// Request returns a request, or store.ErrNotFound.
func (s *Store) Request(ctx context.Context, tenant, requestID string) (store.Request, error) {
	requests, err := s.requests(ctx, requestColumns+` AND request_id = $2`, tenant, requestID)
	if err != nil {
		return store.Request{}, err
	}
	if len(requests) == 0 {
		return store.Request{}, fmt.Errorf("request %s: %w", requestID, store.ErrNotFound)
	}
	if requests[0].deleted {
		return store.Request{}, fmt.Errorf("request %s: %w", requestID, store.ErrDeleted)
	}
	return requests[0].Request, nil
}

// Requests lists the requests of a thread in order.
func (s *Store) Requests(
	ctx context.Context, tenant, threadID string, after store.Position, limit int,
) ([]store.Request, error) {
	text, args := requestColumns+` AND thread_id = $2 AND NOT deleted`, []any{tenant, threadID, limit}
	if after.RequestID == "" {
		text += ` AND idx >= 0`
	} else {
		text, args = text+` AND (idx, request_id) > ($4, $5)`, append(args, after.Index, after.RequestID)
	}
	rows, err := s.requests(ctx, text+` ORDER BY idx, request_id LIMIT $3`, args...)
	requests := make([]store.Request, len(rows))
	for i, r := range rows {
		requests[i] = r.Request
	}
	return requests, err
}

// requestRow is a request or its tombstone.
type requestRow struct {
	store.Request
	deleted bool
}

func (s *Store) requests(ctx context.Context, text string, args ...any) ([]requestRow, error) {
	var requests []requestRow
	err := each(ctx, s.read, text, args, func(rows *sql.Rows) error {
		var r requestRow
		var created, ended int64
		var input string
		err := rows.Scan(&r.RequestID, &r.ThreadID, &r.AgentID, &r.Owner, &r.Index, &r.Status, &created, &ended,
			&r.Accepted, &input, &r.Next, &r.deleted, &r.BodyHash)
		if err != nil {
			return err
		}
		r.CreatedAt, r.EndedAt = moment(created), moment(ended)
		if input != "" {
			if err := json.Unmarshal([]byte(input), &r.Input); err != nil {
				return fmt.Errorf("input of request %s: %w", r.RequestID, err)
			}
		}
		requests = append(requests, r)
		return nil
	})
	if err != nil {
		return nil, s.explain(err, "read requests")
	}
	return requests, nil
}

// Ended counts the requests of a thread with an index below before that have their terminal event.
func (s *Store) Ended(ctx context.Context, tenant, threadID string, before int) (int, error) {
	var n int
	err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM requests
		WHERE tenant = $1 AND thread_id = $2 AND idx >= 0 AND idx < $3 AND ended_at > 0`, tenant, threadID, before).Scan(&n)
	if err != nil {
		return 0, s.explain(err, "count ended requests")
	}
	return n, nil
}

// Open lists requests that have not ended and are quiet. The newest row of a log is the one before the next event.
func (s *Store) Open(
	ctx context.Context, quiet time.Time, after historyapi.RequestRef, limit int,
) ([]historyapi.OpenRequest, error) {
	open := []historyapi.OpenRequest{}
	err := each(ctx, s.read, `SELECT r.tenant, r.request_id, r.thread_id, r.agent_id, r.created_at FROM requests r
		LEFT JOIN frames f ON f.tenant = r.tenant AND f.request_id = r.request_id AND f.last_n = r.next_n - 1
		WHERE r.ended_at = 0 AND NOT r.deleted AND r.idx >= 0 AND r.thread_id <> '' AND r.created_at < $1
		AND (f.at IS NULL OR f.at < $1) AND (r.tenant, r.request_id) > ($2, $3)
		ORDER BY r.tenant, r.request_id LIMIT $4`,
		[]any{micros(quiet), after.Tenant, after.RequestID, limit}, func(rows *sql.Rows) error {
			var r historyapi.OpenRequest
			var created int64
			err := rows.Scan(&r.Tenant, &r.RequestID, &r.ThreadID, &r.AgentID, &created)
			r.CreatedAt = moment(created)
			open = append(open, r)
			return err
		})
	if err != nil {
		return nil, s.explain(err, "read open requests")
	}
	return open, nil
}

// errEnough ends each early, without an error.
var errEnough = errors.New("enough")

type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// each calls one for every row.
func each(ctx context.Context, db querier, text string, args []any, one func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := one(rows); err != nil {
			if errors.Is(err, errEnough) {
				return rows.Close()
			}
			return err
		}
	}
	return rows.Err()
}
