// Package workqueue sends requests to runners and tool calls to executors.
package workqueue

import "github.com/agentbus/agentbus/pkg/bus/internal/broker"

// RequestQueue is the queue of the pointers to requests. It is safe for concurrent use.
type RequestQueue struct {
	conn     *broker.Conn
	advances advances
}

// NewRequestQueue returns the queue that a connection reads and writes.
func NewRequestQueue(conn *broker.Conn) *RequestQueue { return &RequestQueue{conn: conn} }

// ToolQueue is the queue of tool calls. It is safe for concurrent use.
type ToolQueue struct {
	conn *broker.Conn
}

// NewToolQueue returns the queue that a connection reads and writes.
func NewToolQueue(conn *broker.Conn) *ToolQueue { return &ToolQueue{conn: conn} }

// Handle does the work of a message: see [broker.Handle].
type Handle[T any] = broker.Handle[T]
