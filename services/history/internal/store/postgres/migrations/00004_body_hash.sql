-- The hash of the body that a request came with: a retry under its Idempotency-Key must bring the same, also when the
-- stream no longer holds the request. '' = accepted by a version that did not store it. Tombstones keep it.

-- +goose Up
ALTER TABLE requests ADD COLUMN body_hash TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE requests DROP COLUMN body_hash;
