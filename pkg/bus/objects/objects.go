// Package objects stores payloads that are too large for an event.
package objects

import (
	"sync"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go/jetstream"
)

// Store is the object store. It is safe for concurrent use.
type Store struct {
	conn *broker.Conn

	mu     sync.Mutex
	opened jetstream.ObjectStore
}

// New returns the store that a connection reads and writes.
func New(conn *broker.Conn) *Store { return &Store{conn: conn} }
