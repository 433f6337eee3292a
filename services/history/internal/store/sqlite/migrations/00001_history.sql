-- Times are microseconds since 1970 in UTC; 0 = not known. Rows of deleted threads and requests stay as tombstones
-- without content, so that what is delivered late does not bring them back.

-- +goose Up
CREATE TABLE threads (
    tenant          TEXT    NOT NULL,
    thread_id       TEXT    NOT NULL,
    owner           TEXT    NOT NULL DEFAULT '',
    agent_id        TEXT    NOT NULL DEFAULT '', -- of the newest request
    title           TEXT    NOT NULL DEFAULT '',
    title_idx       INTEGER NOT NULL DEFAULT -1, -- of the request that gave the title
    last_idx        INTEGER NOT NULL DEFAULT -1,
    last_request_id TEXT    NOT NULL DEFAULT '',
    created_at      INTEGER NOT NULL DEFAULT 0,
    updated_at      INTEGER NOT NULL DEFAULT 0,
    deleted         BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (tenant, thread_id)
);
CREATE INDEX threads_of_owner ON threads (tenant, owner, updated_at DESC, thread_id DESC) WHERE NOT deleted;

CREATE TABLE requests (
    tenant      TEXT    NOT NULL,
    request_id  TEXT    NOT NULL,
    thread_id   TEXT    NOT NULL DEFAULT '',
    agent_id    TEXT    NOT NULL DEFAULT '',
    owner       TEXT    NOT NULL DEFAULT '',
    idx         INTEGER NOT NULL DEFAULT -1, -- on the thread; -1 = not known yet
    accepted    BOOLEAN NOT NULL DEFAULT FALSE,
    input       TEXT    NOT NULL DEFAULT '', -- what the user said, as JSON
    title       TEXT    NOT NULL DEFAULT '', -- how that starts
    status      TEXT    NOT NULL DEFAULT 'queued',
    next_n      INTEGER NOT NULL DEFAULT 0,
    incarnation TEXT    NOT NULL DEFAULT '', -- of the newest event
    created_at  INTEGER NOT NULL DEFAULT 0,
    ended_at    INTEGER NOT NULL DEFAULT 0,
    deleted     BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (tenant, request_id)
);
CREATE INDEX requests_of_thread ON requests (tenant, thread_id, idx, request_id);

-- A row is a part of a frame of the log, mostly the whole. Rows of one request follow each other without overlapping. The
-- key is the last event: whoever reads on from n starts at the first row that reaches it.
CREATE TABLE frames (
    tenant      TEXT    NOT NULL,
    request_id  TEXT    NOT NULL,
    last_n      INTEGER NOT NULL,
    first_n     INTEGER NOT NULL,
    incarnation TEXT    NOT NULL,
    names       TEXT    NOT NULL, -- of the events in order, runs as text*12
    beyond      BOOLEAN NOT NULL, -- whether one of them is more than a delta
    terminal    BOOLEAN NOT NULL, -- whether the last one is
    earliest    INTEGER NOT NULL, -- of its events
    latest      INTEGER NOT NULL,
    at          INTEGER NOT NULL, -- when the frame was written; stands in where an event does not tell its time
    lines       BLOB    NOT NULL, -- the events, each ended by a line break; packed when they are long (event.PackLines)
    PRIMARY KEY (tenant, request_id, last_n)
);
CREATE UNIQUE INDEX one_terminal ON frames (tenant, request_id) WHERE terminal;
CREATE INDEX blocks ON frames (tenant, request_id, last_n) WHERE beyond; -- what transcripts and messages are made of

-- +goose Down
DROP TABLE frames;
DROP TABLE requests;
DROP TABLE threads;
