package observer

import (
	"context"
	"fmt"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/jackc/pgx/v5"
)

// readRows reads what SQL holds of every request.
func readRows(ctx context.Context, url string) (map[check.ID]check.Row, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // everything has been read
	rows := map[check.ID]check.Row{}
	requests, err := conn.Query(ctx, "SELECT tenant, request_id, status, next_n FROM requests WHERE NOT deleted")
	if err != nil {
		return nil, err
	}
	for requests.Next() {
		var id check.ID
		var row check.Row
		var next int64
		if err := requests.Scan(&id.Tenant, &id.Name, &row.Status, &next); err != nil {
			return nil, err
		}
		row.Next = uint64(next) //nolint:gosec // it counts
		rows[id] = row
	}
	if err := requests.Err(); err != nil {
		return nil, err
	}
	return rows, readFrames(ctx, conn, rows)
}

func readFrames(ctx context.Context, conn *pgx.Conn, rows map[check.ID]check.Row) error {
	frames, err := conn.Query(ctx,
		"SELECT tenant, request_id, first_n, last_n, terminal, lines FROM frames ORDER BY tenant, request_id, last_n")
	if err != nil {
		return err
	}
	next := map[check.ID]int64{}
	for frames.Next() {
		var id check.ID
		var first, last int64
		var terminal bool
		var lines []byte
		if err := frames.Scan(&id.Tenant, &id.Name, &first, &last, &terminal, &lines); err != nil {
			return err
		}
		row := rows[id]
		if first != next[id] && row.Broken == "" {
			row.Broken = fmt.Sprintf("a row begins with event %d, and %d is next", first, next[id])
		}
		next[id] = last + 1
		unpacked, err := event.UnpackLines(lines)
		if err != nil {
			row.Broken = err.Error()
		}
		row.Lines = append(row.Lines, unpacked...)
		if terminal {
			row.Terminals++
		}
		rows[id] = row
	}
	return frames.Err()
}
