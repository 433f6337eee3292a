package toolexecutor

import (
	"context"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// Bus is what an executor uses of the bus. [BusOf] makes one of a *bus.Bus.
type Bus struct {
	Calls
	Results
	Objects
	Listeners
	Requests
	Threads
	Logs
	Toolsets
	Peers
	Clock
}

// BusOf returns the parts of a bus.
func BusOf(b *bus.Bus) Bus { return Bus{b, b, b, b, b, b, b, b, b, b} }

// Calls is the queue of calls.
type Calls interface {
	ConsumeToolCalls(ctx context.Context, slots int, handle bus.Handle[record.ToolCall]) error
}

// Results are the records of what has happened to a call: the first write wins.
type Results interface {
	ToolStarted(ctx context.Context, log bus.LogID, toolCallID string) (record.ToolStarted, error)
	PutToolStarted(ctx context.Context, log bus.LogID, s record.ToolStarted) (record.ToolStarted, bool, error)
	ToolResult(ctx context.Context, log bus.LogID, toolCallID string) (record.ToolResult, error)
	AwaitToolResult(ctx context.Context, log bus.LogID, toolCallID string, progress func(record.ToolProgress)) (record.ToolResult, error)
	PutToolResult(ctx context.Context, log bus.LogID, r record.ToolResult) (record.ToolResult, bool, error)
}

// Objects stores results that are too large for a record.
type Objects interface {
	PutObject(ctx context.Context, tenant, threadID string, data []byte) (event.ObjectRef, error)
}

// Listeners exchanges messages with the runners of running calls.
type Listeners interface {
	Progress(ctx context.Context, log bus.LogID, p record.ToolProgress) error
	Aborted(ctx context.Context, log bus.LogID) (record.Abort, error)
	WatchAbort(ctx context.Context, log bus.LogID, found func(record.Abort)) (stop func(), err error)
}

// Requests accepts the requests of agents to other agents, and sends their pointers.
type Requests interface {
	Accept(ctx context.Context, a record.Accepted) (stored record.Accepted, first bool, err error)
	Accepted(ctx context.Context, log bus.LogID) (record.Accepted, error)
	Start(ctx context.Context, a record.Accepted, index int) error
	EnsurePointer(ctx context.Context, a record.Accepted, index int) (sent bool, err error)
}

// Threads reads and appends the records of threads.
type Threads interface {
	Thread(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error)
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error]
	AdvanceThread(ctx context.Context, tenant string, next record.Thread, after uint64) (bus.ThreadRecord, error)
}

// Logs reads logs.
type Logs interface {
	Last(ctx context.Context, log bus.LogID) (event.Frame, error)
	Read(ctx context.Context, log bus.LogID, from uint64) iter.Seq2[event.Frame, error]
}

// Peers reaches other executors.
type Peers interface {
	Serve(ctx context.Context, service string, verbs map[string]bus.Handler) error
	Ask(ctx context.Context, service, verb string, request, response any) error
}

// Clock is the clock of the broker, in which deadlines are given.
type Clock interface {
	Now() time.Time
}
