package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// Task is a task that the hub has given to an agent.
type Task struct {
	Ref       string // ours
	Tenant    string
	AgentID   string
	AgentName string
	TaskID    string // the agent's; "" until the hub has received it
	SessionID string
	Title     string
	Status    remoteagent.Status
	Turns     int
	CostUSD   float64
	Activity  string
	Result    string
	Error     string
	Stop      string // the reason
	Files     []string
	Denials   []remoteagent.Denial
	Actions   []remoteagent.Action // that it waits for
	Digest    string               // of the assignment; "" = not known
	Notice    string
	CreatedAt time.Time
	UpdatedAt time.Time
	EndedAt   time.Time // zero = open
}

const taskColumns = `ref, tenant, agent_id, agent_name, task_id, session_id, title, status, turns, cost_usd, activity,
	result, error, stop_reason, files, notice, created_at, updated_at, ended_at, digest, denials, actions`

func scanTask(row scanner) (t Task, err error) {
	var files, denials, actions string
	var created, updated, ended int64
	err = row.Scan(&t.Ref, &t.Tenant, &t.AgentID, &t.AgentName, &t.TaskID, &t.SessionID, &t.Title, &t.Status, &t.Turns,
		&t.CostUSD, &t.Activity, &t.Result, &t.Error, &t.Stop, &files, &t.Notice, &created, &updated, &ended,
		&t.Digest, &denials, &actions)
	if err != nil {
		return t, err
	}
	t.CreatedAt, t.UpdatedAt, t.EndedAt = fromMillis(created), fromMillis(updated), fromMillis(ended)
	return t, errors.Join(json.Unmarshal([]byte(files), &t.Files), json.Unmarshal([]byte(denials), &t.Denials),
		json.Unmarshal([]byte(actions), &t.Actions))
}

// AddTask adds a task, unless one has its Ref: then it returns that one.
func (s *Store) AddTask(ctx context.Context, t Task) (Task, error) {
	n, err := s.count(ctx, "add task "+t.Ref, `INSERT INTO hub_tasks (`+taskColumns+`)
		VALUES ($1, $2, $3, $4, '', '', $5, $6, 0, 0, '', '', '', '', '[]', '', $7, $7, 0, $8, '[]', '[]') ON CONFLICT (ref) DO NOTHING`,
		t.Ref, t.Tenant, t.AgentID, t.AgentName, t.Title, t.Status, millis(t.CreatedAt), t.Digest)
	if err != nil || n == 1 {
		return t, err
	}
	return one(ctx, s, "read task "+t.Ref, scanTask, `SELECT `+taskColumns+` FROM hub_tasks WHERE ref = $1`, t.Ref)
}

// WithdrawTask adds a task that has ended before any agent had it, unless one has its Ref: then it returns that one.
func (s *Store) WithdrawTask(ctx context.Context, t Task) (Task, error) {
	n, err := s.count(ctx, "withdraw task "+t.Ref, `INSERT INTO hub_tasks (`+taskColumns+`)
		VALUES ($1, $2, $3, '', '', '', '', $4, 0, 0, '', '', '', '', '[]', '', $5, $5, $5, '', '[]', '[]') ON CONFLICT (ref) DO NOTHING`,
		t.Ref, t.Tenant, t.AgentID, t.Status, millis(t.EndedAt))
	if err != nil || n == 1 {
		return t, err
	}
	return one(ctx, s, "read task "+t.Ref, scanTask, `SELECT `+taskColumns+` FROM hub_tasks WHERE ref = $1`, t.Ref)
}

// DropTask forgets a task that no agent has taken.
func (s *Store) DropTask(ctx context.Context, ref string) error {
	_, err := s.count(ctx, "drop task "+ref, `DELETE FROM hub_tasks WHERE ref = $1 AND task_id = ''`, ref)
	return err
}

// Task returns a task of an agent.
func (s *Store) Task(ctx context.Context, r hubapi.TaskRef) (Task, error) {
	return one(ctx, s, "read task "+r.TaskID, scanTask,
		`SELECT `+taskColumns+` FROM hub_tasks WHERE tenant = $1 AND agent_id = $2 AND task_id = $3 AND task_id <> ''`,
		r.Tenant, r.AgentID, r.TaskID)
}

// TaskQuery selects tasks of an agent.
type TaskQuery struct {
	Tenant, AgentID string
	Status          remoteagent.Status // "" = any
	Before          string             // id of a task: only older ones; "" = from the newest on
	Limit           int
}

// Tasks lists tasks that their agent has taken, the newest first.
func (s *Store) Tasks(ctx context.Context, q TaskQuery) ([]Task, error) {
	return collect(ctx, s, "list tasks of "+q.AgentID, scanTask, `SELECT `+taskColumns+` FROM hub_tasks
		WHERE tenant = $1 AND agent_id = $2 AND task_id <> '' AND ($3 = '' OR status = $3) AND ($4 = '' OR (created_at, ref) < (
			SELECT created_at, ref FROM hub_tasks WHERE tenant = $1 AND agent_id = $2 AND task_id = $4))
		ORDER BY created_at DESC, ref DESC LIMIT $5`, q.Tenant, q.AgentID, string(q.Status), q.Before, q.Limit)
}

// Open lists the tasks that have not ended, the oldest first.
func (s *Store) Open(ctx context.Context) ([]Task, error) {
	return collect(ctx, s, "list open tasks", scanTask,
		`SELECT `+taskColumns+` FROM hub_tasks WHERE ended_at = 0 ORDER BY created_at, ref`)
}

// PutTask stores the state of a task. A task that has ended is not changed: PutTask then returns false.
func (s *Store) PutTask(ctx context.Context, t Task) (bool, error) {
	files, err := json.Marshal(t.Files)
	if err != nil {
		return false, fmt.Errorf("write task %s: %w", t.Ref, err)
	}
	denials, err := json.Marshal(t.Denials)
	if err != nil {
		return false, fmt.Errorf("write task %s: %w", t.Ref, err)
	}
	actions, err := json.Marshal(t.Actions)
	if err != nil {
		return false, fmt.Errorf("write task %s: %w", t.Ref, err)
	}
	n, err := s.count(ctx, "write task "+t.Ref, `UPDATE hub_tasks SET task_id = $2, session_id = $3, status = $4, turns = $5,
		cost_usd = $6, activity = $7, result = $8, error = $9, stop_reason = $10, files = $11, notice = $12,
		updated_at = $13, ended_at = $14, denials = $15, actions = $16 WHERE ref = $1 AND ended_at = 0`,
		t.Ref, t.TaskID, t.SessionID, t.Status, t.Turns, t.CostUSD, t.Activity, t.Result, t.Error, t.Stop, string(files),
		t.Notice, millis(t.UpdatedAt), millis(t.EndedAt), string(denials), string(actions))
	return n == 1, err
}

// Trim deletes the tasks that ended before a time, and returns how many.
func (s *Store) Trim(ctx context.Context, before time.Time) (int64, error) {
	return s.count(ctx, "delete old tasks", `DELETE FROM hub_tasks WHERE ended_at > 0 AND ended_at < $1`, millis(before))
}

// WantCancel notes that a task shall be cancelled. One that has ended stays as it is.
func (s *Store) WantCancel(ctx context.Context, ref string) error {
	_, err := s.count(ctx, "note the cancel of task "+ref, `UPDATE hub_tasks SET cancel_wanted = 1 WHERE ref = $1 AND ended_at = 0`, ref)
	return err
}

// CancelWanted reports whether a task shall be cancelled.
func (s *Store) CancelWanted(ctx context.Context, ref string) (wanted bool, err error) {
	return one(ctx, s, "read whether task "+ref+" shall be cancelled", func(row scanner) (wanted bool, err error) {
		var n int64
		err = row.Scan(&n)
		return n == 1, err
	}, `SELECT cancel_wanted FROM hub_tasks WHERE ref = $1`, ref)
}

// Costs sums up what a tenant's tasks have cost that were created since then, by agent.
func (s *Store) Costs(ctx context.Context, tenant string, since time.Time) (map[string]float64, error) {
	type cost struct {
		agent string
		usd   float64
	}
	all, err := collect(ctx, s, "sum up costs", func(row scanner) (c cost, err error) {
		return c, row.Scan(&c.agent, &c.usd)
	}, `SELECT agent_id, SUM(cost_usd) FROM hub_tasks WHERE tenant = $1 AND created_at >= $2 GROUP BY agent_id`,
		tenant, millis(since))
	if err != nil {
		return nil, err
	}
	costs := make(map[string]float64, len(all))
	for _, c := range all {
		costs[c.agent] = c.usd
	}
	return costs, nil
}
