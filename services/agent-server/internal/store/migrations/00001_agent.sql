-- +goose Up
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    cwd TEXT NOT NULL,
    used_at BIGINT NOT NULL
);

CREATE TABLE tasks (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    idempotency_key TEXT UNIQUE,
    status TEXT NOT NULL,
    cwd TEXT NOT NULL,
    assignment TEXT NOT NULL,
    task TEXT NOT NULL,
    ended_at BIGINT,
    told BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX tasks_by_status ON tasks (status, n);
CREATE INDEX tasks_by_session ON tasks (session_id);

-- What clients see of a task.
CREATE TABLE events (
    task_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (task_id, n)
) WITHOUT ROWID;

-- What the agent knows of a session: the log of its turns.
CREATE TABLE log (
    session_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (session_id, n)
) WITHOUT ROWID;

CREATE TABLE objects (
    session_id TEXT NOT NULL,
    id TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session_id, id)
) WITHOUT ROWID;

-- Calls of unsafe tools that have begun.
CREATE TABLE calls (
    task_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    PRIMARY KEY (task_id, call_id)
) WITHOUT ROWID;

-- Tasks that were here and are no longer.
CREATE TABLE tombstones (
    task_id TEXT PRIMARY KEY,
    removed_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE keys (
    secret TEXT PRIMARY KEY,
    added_at BIGINT NOT NULL,
    expires_at BIGINT
) WITHOUT ROWID;

CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
