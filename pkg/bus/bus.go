// Package bus is agentbus on NATS JetStream: the logs of requests, the records that decide (who runs on a thread, who
// aborted, how a tool call ended), the work queues, and questions between services. ARCHITECTURE.md tells the subjects
// and the rules; no other package knows a subject or imports nats.go.
//
// Start at writer.go (how a log is written), follower.go (how it is read) and record.go (first write wins).
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/redact"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DefaultPrefix is the first token of every subject and, in capitals, the start of every stream's name.
const DefaultPrefix = "agentbus"

var (
	// ErrNotFound is record.ErrNotFound.
	ErrNotFound = record.ErrNotFound
	// ErrConflict is record.ErrConflict.
	ErrConflict = record.ErrConflict
	// ErrFenced says that another runner has claimed the log: the caller must stop at once and acknowledge nothing.
	ErrFenced = errors.New("fenced: another runner has claimed the log")
	// ErrEnded says that the log has its terminal event.
	ErrEnded = errors.New("the request has ended")
	// ErrIdle says that nothing came in the time given.
	ErrIdle = errors.New("nothing new")
	// ErrNoRoom is the ErrIdle of a reader that has to wait for other readers of storage: for their memory or its turn.
	ErrNoRoom = fmt.Errorf("too much is read for other readers: %w", ErrIdle)
	// ErrForgotten says that the stream no longer holds the events asked for; history does.
	ErrForgotten = errors.New("the stream has forgotten these events")
	// ErrDamaged says that a payload is not the one that was stored.
	ErrDamaged = errors.New("not what was stored")
	// ErrTooLarge says that an event or record cannot fit into one message.
	ErrTooLarge = errors.New("too large for one message")
)

// Options say how to reach NATS.
type Options struct {
	URL       string                                         // nats://host:port, several by comma
	InProcess interface{ InProcessConn() (net.Conn, error) } // an embedded server; instead of URL
	Name      string                                         // of the service, as NATS shows it and in its inboxes
	Prefix    string                                         // "" = DefaultPrefix
	CredsFile string                                         // NATS credentials; "" = none
	Replay    *budget.Budget                                 // for what readers of logs buffer; nil = one of the default size
}

// Bus is a connection. It is safe for concurrent use.
type Bus struct {
	broker
	nc       *nats.Conn
	js       jetstream.JetStream
	prefix   string
	feeds    feeds
	link     *link
	replay   *budget.Budget
	turns    *budget.Turns // of those that read logs from storage
	room     room
	weak     weakness // nothing, but in builds for tests
	clock    clock
	advances advances

	mu          sync.Mutex
	incarnation string
	replicas    int
	maxAge      time.Duration                 // of the EVENTS stream; 0 = no limit
	buckets     map[string]jetstream.KeyValue // by the kind of their shelf
	objects     jetstream.ObjectStore
}

// Connect reaches NATS, waiting for it until ctx is done. Afterwards the connection repairs itself for ever; calls made
// while it is down fail or wait as their context allows.
func Connect(ctx context.Context, o Options) (*Bus, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if err := checkToken(o.Prefix); err != nil {
		return nil, fmt.Errorf("subject prefix: %w", err)
	}
	connection := &link{}
	nc, err := dial(ctx, o, connection)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	weak := newWeakness()
	if o.Replay == nil {
		o.Replay = budget.New(0)
	}
	return &Bus{
		broker: weak.broker(server{nc, connection}), nc: nc, js: js, prefix: o.Prefix, link: connection, replay: o.Replay, weak: weak,
		turns: newTurns(),
	}, nil
}

func dial(ctx context.Context, o Options, connection *link) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
		// What is published while the connection is down must fail now, not be stored at some later time.
		nats.ReconnectBufSize(-1),
		nats.Timeout(2 * time.Second),
		// A subscription that is read message by message reserves this many places, for every question.
		nats.SyncQueueLen(1000),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { connection.lost() }),
		nats.ReconnectHandler(func(*nats.Conn) { connection.restored() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				return // its reader sees the gap and reads storage
			}
			slog.Warn("NATS reports an error", "error", err)
		}),
	}
	if checkToken(o.Name) == nil {
		options = append(options, nats.CustomInboxPrefix("_INBOX."+o.Name))
	}
	if o.InProcess != nil {
		options = append(options, nats.InProcessServer(o.InProcess))
	}
	if o.CredsFile != "" {
		options = append(options, nats.UserCredentials(o.CredsFile))
	}
	for {
		nc, err := nats.Connect(o.URL, options...)
		if err == nil {
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || pause(ctx, 200*time.Millisecond) != nil {
			return nil, fmt.Errorf("connect to NATS at %s: %w", redact.URL(o.URL), redact.Error(err))
		}
	}
}

// Close drops the connection. End Serve, Project and the queues first, by their contexts: each waits for its own.
func (b *Bus) Close() { b.nc.Close() }

// Ready reports why the bus cannot be used, or nil.
func (b *Bus) Ready(ctx context.Context) error {
	if status := b.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("NATS connection is %s", status)
	}
	if err := b.flush(ctx); err != nil {
		return fmt.Errorf("NATS does not answer: %w", err)
	}
	return nil
}

// Replay is the budget of what readers of logs buffer. Those who read logs from elsewhere charge it too.
func (b *Bus) Replay() *budget.Budget { return b.replay }

// Incarnation names the EVENTS stream that holds the logs now. It is "" until Provision or Verify has succeeded.
func (b *Bus) Incarnation() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.incarnation
}

// MaxAge is how long the EVENTS stream keeps what it holds, as Provision or Verify has seen it; 0 = no limit.
func (b *Bus) MaxAge() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.maxAge
}

func (b *Bus) replicated() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.replicas > 1
}

// pause waits for d, or returns ctx's error when it is done first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
