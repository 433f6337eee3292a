-- +goose Up
ALTER TABLE hub_tasks ADD COLUMN cancel_wanted INTEGER NOT NULL DEFAULT 0; -- somebody wants it cancelled, and the agent may not know

-- +goose Down
ALTER TABLE hub_tasks DROP COLUMN cancel_wanted;
