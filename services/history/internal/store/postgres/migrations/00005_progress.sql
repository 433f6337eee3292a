-- How far the projection of the stream has come, in one row, which is written in the transaction of the data. Everything that
-- the stream held up to through is stored. While target is above through, the messages between them are projected again.

-- +goose Up
CREATE TABLE progress (
    one         BIGINT PRIMARY KEY CHECK (one = 1),
    incarnation TEXT   NOT NULL, -- of the stream; '' = not compared with a stream yet
    through     BIGINT NOT NULL,
    target      BIGINT NOT NULL,
    version     BIGINT NOT NULL  -- grows with each transaction: an older copy of the database has a smaller one
);

-- +goose Down
DROP TABLE progress;
