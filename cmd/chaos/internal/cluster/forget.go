package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/agentbus/agentbus/internal/pgserver"
	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/jackc/pgx/v5"
)

// Flush empties Redis.
func (n *Node) Flush(ctx context.Context) error {
	return testcluster.AskRedis(ctx, n.Addr, "FLUSHALL", "+OK")
}

// hubTables is how the names of the hub's tables begin: what they hold is stored nowhere else.
const hubTables = "hub_"

// versions is part of the names of the tables that say which version of its tables a service has made.
const versions = "goose"

// EmptyHistory drops every table of history from PostgreSQL, or deletes their rows. It tries for as long as ctx allows,
// since the server may be down.
func (n *Node) EmptyHistory(ctx context.Context, drop bool) error {
	for {
		err := n.emptyHistory(ctx, drop)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (n *Node) emptyHistory(ctx context.Context, drop bool) error {
	conn, err := pgx.Connect(ctx, pgserver.URL(n.Addr))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statement has ended
	rows, err := conn.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var tables []string
	for _, name := range names {
		if !strings.HasPrefix(name, hubTables) && (drop || !strings.Contains(name, versions)) {
			tables = append(tables, pgx.Identifier{name}.Sanitize())
		}
	}
	if len(tables) == 0 {
		return nil
	}
	verb := "TRUNCATE "
	if drop {
		verb = "DROP TABLE "
	}
	_, err = conn.Exec(ctx, verb+strings.Join(tables, ", ")+" CASCADE")
	return err
}
