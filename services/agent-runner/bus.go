package agentrunner

import (
	"context"
	"iter"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// Bus is what a runner uses of the bus. [BusOf] makes one of a *bus.Bus.
type Bus struct {
	Logs
	Requests
	Queue
	Threads
	Commands
	Tools
	Objects
	Broker
}

// BusOf returns the parts of a bus.
func BusOf(b *bus.Bus) Bus { return Bus{b, b, b, b, b, b, b, b} }

// Logs writes and reads logs.
type Logs interface {
	Claim(ctx context.Context, log bus.LogID, runner, build string, opening ...event.Body) (*bus.Writer, []event.Frame, error)
	Follow(ctx context.Context, log bus.LogID, from uint64) (*bus.Follower, error)
	Last(ctx context.Context, log bus.LogID) (event.Frame, error)
	Read(ctx context.Context, log bus.LogID, from uint64) iter.Seq2[event.Frame, error]
}

// Requests reads the records of accepted requests.
type Requests interface {
	Accepted(ctx context.Context, log bus.LogID) (record.Accepted, error)
}

// Queue sends and receives the pointers to requests.
type Queue interface {
	ConsumeRequests(ctx context.Context, slots int, handle bus.Handle[record.Start]) error
	QueueDepth(ctx context.Context) (int64, error)
	Start(ctx context.Context, a record.Accepted, index int) error
	EnsurePointer(ctx context.Context, a record.Accepted, index int) (sent bool, err error)
	AdvanceBacklog(ctx context.Context, from uint64) (next uint64, err error)
}

// Threads reads and appends the records of threads.
type Threads interface {
	Thread(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error)
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error]
	AdvanceThread(ctx context.Context, tenant string, next record.Thread, after uint64) (bus.ThreadRecord, error)
}

// Commands reads the aborts and steers of requests.
type Commands interface {
	CommandsAfter(ctx context.Context, log bus.LogID, after uint64) (bus.CommandList, error)
	Abort(ctx context.Context, tenant string, a record.Abort) (first bool, err error)
	Aborted(ctx context.Context, log bus.LogID) (record.Abort, error)
	WatchAbort(ctx context.Context, log bus.LogID, found func(record.Abort)) (stop func(), err error)
	WatchAborts(ctx context.Context, found func(tenant string, a record.Abort)) error
}

// Tools sends tool calls to executors, and lists the tools of MCP servers.
type Tools interface {
	CallTool(ctx context.Context, toolset string, c record.ToolCall) error
	AwaitToolResult(ctx context.Context, log bus.LogID, toolCallID string, progress func(record.ToolProgress)) (record.ToolResult, error)
	WatchToolsets(ctx context.Context, changed func(bus.Toolset), ready func()) error
}

// Objects stores what is too large for an event.
type Objects interface {
	PutObject(ctx context.Context, tenant, threadID string, data []byte) (event.ObjectRef, error)
	Object(ctx context.Context, tenant, threadID string, ref event.ObjectRef) ([]byte, error)
}

// Broker is the clock and the limits of the broker.
type Broker interface {
	Now() time.Time
	MaxAge() time.Duration
	EventsFullness(ctx context.Context) (float64, error)
}
