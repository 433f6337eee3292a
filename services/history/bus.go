package history

import (
	"context"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// Bus is what history uses of the bus. [BusOf] makes one of a *bus.Bus.
type Bus struct {
	Records
	Logs
	Source
	Service
}

// BusOf returns the parts of a bus.
func BusOf(b *bus.Bus) Bus { return Bus{b, b, b, b} }

// Records reads the records of requests, threads and sessions.
type Records interface {
	Accepted(ctx context.Context, id bus.LogID) (record.Accepted, error)
	HasPointer(ctx context.Context, a record.Accepted) (bool, error)
	Thread(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error)
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error]
	Session(ctx context.Context, tenant, threadID string) (bus.SessionRecord, error)
}

// Logs reads logs.
type Logs interface {
	Last(ctx context.Context, id bus.LogID) (event.Frame, error)
	Read(ctx context.Context, id bus.LogID, from uint64) iter.Seq2[event.Frame, error]
}

// Source is the EVENTS stream, which history projects.
type Source interface {
	Incarnation() string
	LastSequence(ctx context.Context) (uint64, error)
	Projected(ctx context.Context) (bus.Projected, error)
	Entries(ctx context.Context, from uint64) (entries []bus.Entry, next uint64, err error)
	Project(ctx context.Context, hurry <-chan struct{}, apply bus.Apply) error
}

// Service receives the questions to history.
type Service interface {
	Serve(ctx context.Context, service string, verbs map[string]bus.Handler) error
	Ready(ctx context.Context) error
	Now() time.Time
}
