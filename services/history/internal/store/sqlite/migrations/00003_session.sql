-- What is noted on a thread: the newest command.Session as JSON, '' = nothing. A thread may have that and no request yet.

-- +goose Up
ALTER TABLE threads ADD COLUMN session TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE threads DROP COLUMN session;
