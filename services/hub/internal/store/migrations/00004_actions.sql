-- +goose Up
ALTER TABLE hub_tasks ADD COLUMN actions TEXT NOT NULL DEFAULT '[]'; -- JSON: those that the task waits for

-- +goose Down
ALTER TABLE hub_tasks DROP COLUMN actions;
