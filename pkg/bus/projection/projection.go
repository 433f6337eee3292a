// Package projection reads every message of the EVENTS stream for the database of history.
package projection

import "github.com/agentbus/agentbus/pkg/bus/internal/broker"

// Source is the EVENTS stream, as history reads it. It is safe for concurrent use.
type Source struct {
	conn *broker.Conn
}

// New returns the stream that a connection reads.
func New(conn *broker.Conn) *Source { return &Source{conn: conn} }
