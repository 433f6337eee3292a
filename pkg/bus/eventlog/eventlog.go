// Package eventlog is the log of a request's events: a Writer appends to it, a Follower reads it to its end.
//
// Start at writer.go (how a log is written) and follower.go (how it is read).
package eventlog

import (
	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
)

// Logs are the logs of all requests. They are safe for concurrent use.
type Logs struct {
	conn   *broker.Conn
	feeds  feeds
	replay *budget.Budget
	turns  *budget.Turns
}

// New returns the logs on a connection. What readers buffer is charged to replay, and they read storage in turns.
func New(conn *broker.Conn, replay *budget.Budget, turns *budget.Turns) *Logs {
	return &Logs{conn: conn, replay: replay, turns: turns}
}
