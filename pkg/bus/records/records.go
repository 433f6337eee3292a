// Package records stores the records that decide: what was accepted, which request runs next on a thread, what was asked of a
// running request, and how a tool call has ended.
package records

import "github.com/agentbus/agentbus/pkg/bus/internal/broker"

// Requests are the records of accepted requests. They are safe for concurrent use.
type Requests struct {
	conn *broker.Conn
}

// NewRequests returns the records that a connection reads and writes.
func NewRequests(conn *broker.Conn) *Requests { return &Requests{conn: conn} }

// Threads are the records of threads. They are safe for concurrent use.
type Threads struct {
	conn *broker.Conn
}

// NewThreads returns the records that a connection reads and writes.
func NewThreads(conn *broker.Conn) *Threads { return &Threads{conn: conn} }

// Sessions are the metadata of threads. They are safe for concurrent use.
type Sessions struct {
	conn *broker.Conn
}

// NewSessions returns the records that a connection reads and writes.
func NewSessions(conn *broker.Conn) *Sessions { return &Sessions{conn: conn} }

// Commands are what users ask of running requests. They are safe for concurrent use.
type Commands struct {
	conn *broker.Conn
}

// NewCommands returns the records that a connection reads and writes.
func NewCommands(conn *broker.Conn) *Commands { return &Commands{conn: conn} }

// ToolCalls are the starts and the results of tool calls. They are safe for concurrent use.
type ToolCalls struct {
	conn *broker.Conn
}

// NewToolCalls returns the records that a connection reads and writes.
func NewToolCalls(conn *broker.Conn) *ToolCalls { return &ToolCalls{conn: conn} }
