-- How many bytes are stored, by tenant and owner of the threads: of frames.lines, requests.input and threads.session. It is
-- changed in the transaction of the data.

-- +goose Up
CREATE TABLE stored_bytes (
    tenant TEXT COLLATE "C" NOT NULL,
    owner  TEXT COLLATE "C" NOT NULL, -- '' = not known yet: of the request only frames have come
    bytes  BIGINT           NOT NULL,
    PRIMARY KEY (tenant, owner)
);
INSERT INTO stored_bytes (tenant, owner, bytes)
SELECT tenant, owner, sum(bytes) FROM (
    SELECT tenant, owner, octet_length(input) AS bytes FROM requests WHERE NOT deleted
    UNION ALL
    SELECT r.tenant, r.owner, octet_length(f.lines) FROM frames f
        JOIN requests r ON r.tenant = f.tenant AND r.request_id = f.request_id WHERE NOT r.deleted
    UNION ALL
    SELECT tenant, owner, octet_length(session) FROM threads
) AS x GROUP BY tenant, owner;

-- +goose Down
DROP TABLE stored_bytes;
