// Package rpc is request and response between services.
package rpc

import "github.com/agentbus/agentbus/pkg/bus/internal/broker"

// Peer sends requests to services and serves them. It is safe for concurrent use.
type Peer struct {
	conn *broker.Conn
}

// New returns the peer that uses a connection.
func New(conn *broker.Conn) *Peer { return &Peer{conn: conn} }
