// Package remoteagent is what a hub and its remote agents say to each other (S3, Remote Agent Server): tasks, their events, what
// an agent is and how it does, and a [Client] for all of it. The agent-server speaks it as the spoke, the hub as
// the hub.
//
// Read task.go for tasks, event.go for their streams, hub.go for what a spoke tells its hub, client.go for the client.
package remoteagent

import "time"

// The intervals of S3 (Heartbeat, Network Timeout).
const (
	HeartbeatEvery = 30 * time.Second
	OfflineAfter   = 2 * time.Minute
	CreateTimeout  = 30 * time.Second
	AskTimeout     = 10 * time.Second
)

// IdempotencyKey is the header that makes a repeated POST /tasks give the task of the first.
const IdempotencyKey = "Idempotency-Key"
