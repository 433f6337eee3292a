// Package bus connects to NATS JetStream and puts the packages below it together: the logs of requests (eventlog), the records
// that decide (records), the queues (workqueue), what history projects (projection), request and response between services
// (rpc), the prompts of clients of the broker (prompts), and buckets (kv, objects). ARCHITECTURE.md has the table of the
// subjects, and the rules. No package outside this folder uses a subject or imports nats.go.
//
// Start at eventlog/writer.go (how a log is written), eventlog/follower.go (how it is read) and internal/broker/append.go
// (how a message is stored under a condition).
package bus

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/kv"
	"github.com/agentbus/agentbus/pkg/bus/objects"
	"github.com/agentbus/agentbus/pkg/bus/projection"
	"github.com/agentbus/agentbus/pkg/bus/prompts"
	"github.com/agentbus/agentbus/pkg/bus/records"
	"github.com/agentbus/agentbus/pkg/bus/rpc"
	"github.com/agentbus/agentbus/pkg/bus/workqueue"
	"github.com/nats-io/nats.go"
)

// Options say how to reach NATS.
type Options struct {
	URL       string                                         // nats://host:port, several by comma
	InProcess interface{ InProcessConn() (net.Conn, error) } // an embedded server; instead of URL
	Name      string                                         // of the service, as NATS shows it and in its inboxes
	Prefix    string                                         // "" = agentbus
	Replay    *budget.Budget                                 // for what readers of logs buffer; nil = one of the default size

	Credentials Credentials
	Instruments Instruments // for tests of faults
}

// Bus is a connection with all that is built on it. It is safe for concurrent use.
type Bus struct {
	conn   *broker.Conn
	replay *budget.Budget
	turns  *budget.Turns // of those that read logs from storage

	*eventlog.Logs
	*records.Requests
	*records.Threads
	*records.Sessions
	*records.Commands
	*records.ToolCalls
	*workqueue.RequestQueue
	*workqueue.ToolQueue
	*workqueue.DeliveryQueue
	*projection.Source
	*rpc.Peer
	*prompts.Inbox
	*kv.KeyBucket
	*kv.AgentBucket
	*kv.ToolsetBucket
	*kv.PushBucket
	*objects.Store
}

// Connect connects to NATS, and retries until ctx is done. Afterwards the connection reconnects by itself without a limit.
// Calls made while it is down fail or wait as their context allows.
func Connect(ctx context.Context, o Options) (*Bus, error) {
	conn, err := broker.Dial(ctx, broker.Options{
		URL: o.URL, InProcess: o.InProcess, Name: o.Name, Prefix: o.Prefix, Credentials: o.Credentials,
		Instruments: o.Instruments,
	})
	if err != nil {
		return nil, err
	}
	if o.Replay == nil {
		o.Replay = budget.New(0)
	}
	return newBus(conn, o.Replay), nil
}

func newBus(conn *broker.Conn, replay *budget.Budget) *Bus {
	turns := eventlog.NewTurns()
	return &Bus{
		conn: conn, replay: replay, turns: turns,
		Logs:          eventlog.New(conn, replay, turns),
		Requests:      records.NewRequests(conn),
		Threads:       records.NewThreads(conn),
		Sessions:      records.NewSessions(conn),
		Commands:      records.NewCommands(conn),
		ToolCalls:     records.NewToolCalls(conn),
		RequestQueue:  workqueue.NewRequestQueue(conn),
		ToolQueue:     workqueue.NewToolQueue(conn),
		DeliveryQueue: workqueue.NewDeliveryQueue(conn),
		Source:        projection.New(conn),
		Peer:          rpc.New(conn),
		Inbox:         prompts.New(conn),
		KeyBucket:     kv.NewKeyBucket(conn),
		AgentBucket:   kv.NewAgentBucket(conn),
		ToolsetBucket: kv.NewToolsetBucket(conn),
		PushBucket:    kv.NewPushBucket(conn),
		Store:         objects.New(conn),
	}
}

// Close closes the connection. End Serve, Project and the queues first, by their contexts: each waits for its handlers.
func (b *Bus) Close() { b.conn.NATS.Close() }

// Ready reports why the bus cannot be used, or nil.
func (b *Bus) Ready(ctx context.Context) error {
	if status := b.conn.NATS.Status(); status != nats.CONNECTED {
		return fmt.Errorf("NATS connection is %s", status)
	}
	if err := b.conn.Flush(ctx); err != nil {
		return fmt.Errorf("NATS does not answer: %w", err)
	}
	return nil
}

// Replay is the budget of what readers of logs buffer. Readers of logs in other places charge it too.
func (b *Bus) Replay() *budget.Budget { return b.replay }

// Incarnation names the EVENTS stream that holds the logs now. It is "" until Provision or Verify has succeeded.
func (b *Bus) Incarnation() string { return b.conn.Incarnation() }

// MaxAge is how long the EVENTS stream keeps messages, as Provision or Verify has read it; 0 = no limit.
func (b *Bus) MaxAge() time.Duration { return b.conn.MaxAge() }

// Now returns the time by the clock that stamps the messages of the EVENTS stream. Services compare only its times with
// those of messages, or with one another, because the wall clocks of machines differ. Now sends no request: each check of
// the stream ([Bus.Verify], and [Bus.Watch] every few seconds) measures the difference, and in between the monotonic clock
// of the process advances. Before the first check it is the wall clock of the process.
func (b *Bus) Now() time.Time { return b.conn.Now() }
