// Package remoteagent defines the protocol between a hub and its remote agents (TARS hub protocol, Remote Agent
// Server): tasks, their events, the description and condition of an agent, and a [Client]. The agent-server and the hub
// both use it.
//
// Read task.go for tasks, event.go for their streams, hub.go for the calls from an agent-server to its hub, client.go
// for the client.
package remoteagent

import "time"

// The intervals of the TARS hub protocol (Heartbeat, Network Timeout).
const (
	HeartbeatEvery = 30 * time.Second
	OfflineAfter   = 2 * time.Minute
	CreateTimeout  = 30 * time.Second
	AskTimeout     = 10 * time.Second
)

// IdempotencyKey is the header that makes a repeated POST /tasks give the task of the first.
const IdempotencyKey = "Idempotency-Key"
