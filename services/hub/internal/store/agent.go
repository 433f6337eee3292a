package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// Agent is a row of the registry (TARS hub protocol, Agent Document). Ids are unique among all tenants: an agent
// identifies itself to the hub by its id.
type Agent struct {
	ID           string
	Tenant       string
	Name         string
	URL          string
	SealedKey    string
	SealedOldKey string // "" = none; taken from the agent until OldKeyUntil
	OldKeyUntil  time.Time
	Capabilities []string
	DefaultCwd   string
	DefaultModel string
	BudgetUSD    float64

	// Defaults of its tasks; the zero value leaves them to the agent.
	PermissionMode remoteagent.PermissionMode
	AllowedTools   []string // nil = all that the agent has
	SystemPrompt   string

	Online        bool
	LastHeartbeat time.Time
	CreatedAt     time.Time
}

const agentColumns = `id, tenant, name, url, sealed_key, sealed_old_key, old_key_until, capabilities,
	default_cwd, default_model, budget_usd, online, last_heartbeat, created_at, permission_mode, allowed_tools, system_prompt`

func scanAgent(row scanner) (a Agent, err error) {
	var capabilities, tools string
	var until, heartbeat, created, online int64
	err = row.Scan(&a.ID, &a.Tenant, &a.Name, &a.URL, &a.SealedKey, &a.SealedOldKey, &until, &capabilities,
		&a.DefaultCwd, &a.DefaultModel, &a.BudgetUSD, &online, &heartbeat, &created, &a.PermissionMode, &tools, &a.SystemPrompt)
	if err != nil {
		return a, err
	}
	a.OldKeyUntil, a.LastHeartbeat, a.CreatedAt, a.Online = fromMillis(until), fromMillis(heartbeat), fromMillis(created), online == 1
	if tools != "" {
		err = json.Unmarshal([]byte(tools), &a.AllowedTools)
	}
	return a, errors.Join(err, json.Unmarshal([]byte(capabilities), &a.Capabilities))
}

// toolNames encodes a list of tools: nil is empty, and differs from an empty list.
func toolNames(names []string) (string, error) {
	if names == nil {
		return "", nil
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// AddAgent adds an agent, or fails with ErrExists.
func (s *Store) AddAgent(ctx context.Context, a Agent) error {
	return s.insertAgent(ctx, a, `DO NOTHING`)
}

// PutAgent is AddAgent for an agent that its tenant may have already: what the tenant has set stays as it is.
func (s *Store) PutAgent(ctx context.Context, a Agent) error {
	return s.insertAgent(ctx, a, `DO UPDATE SET name = excluded.name, url = excluded.url, sealed_key = excluded.sealed_key,
		sealed_old_key = excluded.sealed_old_key, old_key_until = excluded.old_key_until, capabilities = excluded.capabilities,
		online = excluded.online, last_heartbeat = excluded.last_heartbeat WHERE hub_agents.tenant = excluded.tenant`)
}

func (s *Store) insertAgent(ctx context.Context, a Agent, known string) error {
	capabilities, err := json.Marshal(a.Capabilities)
	if err != nil {
		return fmt.Errorf("add agent %s: %w", a.ID, err)
	}
	tools, err := toolNames(a.AllowedTools)
	if err != nil {
		return fmt.Errorf("add agent %s: %w", a.ID, err)
	}
	n, err := s.count(ctx, "add agent "+a.ID, `INSERT INTO hub_agents (`+agentColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT (id) `+known,
		a.ID, a.Tenant, a.Name, a.URL, a.SealedKey, a.SealedOldKey, millis(a.OldKeyUntil), string(capabilities),
		a.DefaultCwd, a.DefaultModel, a.BudgetUSD, flag(a.Online), millis(a.LastHeartbeat), millis(a.CreatedAt),
		a.PermissionMode, tools, a.SystemPrompt)
	if err == nil && n == 0 {
		return fmt.Errorf("add agent %s: %w", a.ID, ErrExists)
	}
	return err
}

// SetDefaults replaces the name of an agent, its budget, and the defaults of its tasks.
func (s *Store) SetDefaults(ctx context.Context, a Agent) error {
	tools, err := toolNames(a.AllowedTools)
	if err != nil {
		return fmt.Errorf("set the defaults of agent %s: %w", a.ID, err)
	}
	return s.change(ctx, "set the defaults of agent "+a.ID, `UPDATE hub_agents SET name = $2, default_cwd = $3, default_model = $4,
		budget_usd = $5, permission_mode = $6, allowed_tools = $7, system_prompt = $8 WHERE id = $1`,
		a.ID, a.Name, a.DefaultCwd, a.DefaultModel, a.BudgetUSD, a.PermissionMode, tools, a.SystemPrompt)
}

// Agent returns the agent of that id, of any tenant.
func (s *Store) Agent(ctx context.Context, id string) (Agent, error) {
	return one(ctx, s, "read agent "+id, scanAgent, `SELECT `+agentColumns+` FROM hub_agents WHERE id = $1`, id)
}

// Agents lists all agents by id.
func (s *Store) Agents(ctx context.Context) ([]Agent, error) {
	return collect(ctx, s, "list agents", scanAgent, `SELECT `+agentColumns+` FROM hub_agents ORDER BY id`)
}

// RemoveAgent forgets an agent; its tasks stay, for what they cost.
func (s *Store) RemoveAgent(ctx context.Context, id string) error {
	return s.change(ctx, "remove agent "+id, `DELETE FROM hub_agents WHERE id = $1`, id)
}

// Rotate replaces an agent's key if it is still the one that the caller saw; else it fails with ErrNotFound.
func (s *Store) Rotate(ctx context.Context, seen Agent, sealed string, oldUntil time.Time) error {
	return s.change(ctx, "rotate the key of agent "+seen.ID,
		`UPDATE hub_agents SET sealed_key = $1, sealed_old_key = sealed_key, old_key_until = $2 WHERE id = $3 AND sealed_key = $4`,
		sealed, millis(oldUntil), seen.ID, seen.SealedKey)
}

// Beat notes a sign of life of an agent.
func (s *Store) Beat(ctx context.Context, id string, at time.Time) error {
	return s.change(ctx, "note a heartbeat of "+id,
		`UPDATE hub_agents SET online = 1, last_heartbeat = $1 WHERE id = $2`, millis(at), id)
}

// Offline notes that an agent does not answer.
func (s *Store) Offline(ctx context.Context, id string) error {
	return s.change(ctx, "note that "+id+" is offline", `UPDATE hub_agents SET online = 0 WHERE id = $1`, id)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
