-- +goose Up
CREATE TABLE hub_agents (
    id             TEXT PRIMARY KEY,
    tenant         TEXT NOT NULL,
    name           TEXT NOT NULL,
    url            TEXT NOT NULL,
    sealed_key     TEXT NOT NULL,
    sealed_old_key TEXT NOT NULL, -- still taken from the agent until old_key_until
    old_key_until  BIGINT NOT NULL,
    capabilities   TEXT NOT NULL, -- JSON
    default_cwd    TEXT NOT NULL,
    default_model  TEXT NOT NULL,
    budget_usd     DOUBLE PRECISION NOT NULL, -- 0 = the configuration's
    online         INTEGER NOT NULL,
    last_heartbeat BIGINT NOT NULL,
    created_at     BIGINT NOT NULL
);

CREATE TABLE hub_tasks (
    ref          TEXT PRIMARY KEY, -- ours, and the Idempotency-Key that the agent gets
    tenant       TEXT NOT NULL,
    agent_id     TEXT NOT NULL,
    agent_name   TEXT NOT NULL,
    task_id      TEXT NOT NULL, -- the agent's; empty until it has told it
    session_id   TEXT NOT NULL,
    title        TEXT NOT NULL,
    status       TEXT NOT NULL,
    turns        BIGINT NOT NULL,
    cost_usd     DOUBLE PRECISION NOT NULL,
    activity     TEXT NOT NULL,
    result       TEXT NOT NULL,
    error        TEXT NOT NULL,
    stop_reason  TEXT NOT NULL,
    files        TEXT NOT NULL, -- JSON
    notice       TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL -- 0 = open
);

CREATE INDEX hub_tasks_by_agent ON hub_tasks (tenant, agent_id, task_id);
CREATE INDEX hub_tasks_by_time ON hub_tasks (tenant, created_at);
CREATE INDEX hub_tasks_open ON hub_tasks (ref) WHERE ended_at = 0;

CREATE TABLE hub_tokens (
    hash       TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE hub_tokens;
DROP TABLE hub_tasks;
DROP TABLE hub_agents;
