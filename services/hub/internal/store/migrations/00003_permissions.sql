-- +goose Up
ALTER TABLE hub_agents ADD COLUMN permission_mode TEXT NOT NULL DEFAULT ''; -- of its tasks; empty = the agent's own
ALTER TABLE hub_agents ADD COLUMN allowed_tools TEXT NOT NULL DEFAULT ''; -- JSON; empty = all that the agent has
ALTER TABLE hub_agents ADD COLUMN system_prompt TEXT NOT NULL DEFAULT '';
ALTER TABLE hub_tasks ADD COLUMN digest TEXT NOT NULL DEFAULT ''; -- of the assignment; empty = not known
ALTER TABLE hub_tasks ADD COLUMN denials TEXT NOT NULL DEFAULT '[]'; -- JSON

-- +goose Down
ALTER TABLE hub_tasks DROP COLUMN denials;
ALTER TABLE hub_tasks DROP COLUMN digest;
ALTER TABLE hub_agents DROP COLUMN system_prompt;
ALTER TABLE hub_agents DROP COLUMN allowed_tools;
ALTER TABLE hub_agents DROP COLUMN permission_mode;
