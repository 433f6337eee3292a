-- +goose Up
-- Keys are stored as hashes. The process hashes the rows of plain_keys at its next start and deletes them.
ALTER TABLE keys RENAME TO plain_keys;

CREATE TABLE keys (
    hash TEXT PRIMARY KEY,
    sealed TEXT NOT NULL,
    added_at BIGINT NOT NULL,
    expires_at BIGINT
) WITHOUT ROWID;
