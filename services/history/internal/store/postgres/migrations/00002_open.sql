-- What the sweep over open requests reads: few rows of many.

-- +goose Up
CREATE INDEX open_requests ON requests (tenant, request_id) WHERE ended_at = 0 AND NOT deleted;

-- +goose Down
DROP INDEX open_requests;
