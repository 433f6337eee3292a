// Package broker reads and writes the streams of NATS JetStream: it appends with a condition, reads what is stored, follows
// what is published, and has the names of subjects and streams. The packages of pkg/bus build logs, records and queues on it.
//
// Start at append.go (how a message is stored) and storage.go (how it is read).
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/redact"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say how to reach NATS.
type Options struct {
	URL       string                                         // nats://host:port, several by comma
	InProcess interface{ InProcessConn() (net.Conn, error) } // an embedded server; instead of URL
	Name      string                                         // of the service, as NATS shows it and in its inboxes
	Prefix    string                                         // "" = DefaultPrefix

	Credentials Credentials
	Instruments Instruments
}

// Conn is a connection to NATS. It is safe for concurrent use.
type Conn struct {
	Broker
	NATS      *nats.Conn
	JetStream jetstream.JetStream
	Prefix    string // of all subjects
	Link      *Link
	Space     Space
	Observer  Observer
	Clock     Clock

	streams func([]jetstream.StreamConfig) []jetstream.StreamConfig // nil = does not change them

	mu   sync.Mutex
	info EventsInfo
}

// EventsInfo are the properties of the EVENTS stream that readers and writers need.
type EventsInfo struct {
	Incarnation string
	Replicas    int
	MaxAge      time.Duration // 0 = no limit
}

// New returns a connection on another implementation of Broker, as the simulation has one. What needs a NATS server fails.
func New(b Broker, events EventsInfo) *Conn {
	return &Conn{Broker: b, Prefix: DefaultPrefix, Link: &Link{}, Observer: Unobserved{}, info: events}
}

// Dial connects to NATS, and retries until ctx is done. Afterwards the connection reconnects by itself without a limit.
// Calls made while it is down fail or wait as their context allows.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if err := CheckToken(o.Prefix); err != nil {
		return nil, fmt.Errorf("subject prefix: %w", err)
	}
	connection := &Link{}
	nc, err := dial(ctx, o, connection)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	server := Server{nc, connection}
	b := &Conn{
		Broker: Broker{server, server, server}, NATS: nc, JetStream: js, Prefix: o.Prefix, Link: connection,
		Observer: Unobserved{}, streams: o.Instruments.Streams,
	}
	if decorate := o.Instruments.Broker; decorate != nil {
		b.Broker = decorate(b.Broker)
	}
	if observer := o.Instruments.Observer; observer != nil {
		b.Observer = observer
	}
	return b, nil
}

func dial(ctx context.Context, o Options, connection *Link) (*nats.Conn, error) {
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
		nats.DisconnectErrHandler(func(*nats.Conn, error) { connection.Lost() }),
		nats.ReconnectHandler(func(*nats.Conn) { connection.Restored() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				return // its reader sees the gap and reads storage
			}
			slog.Warn("NATS reports an error", "error", err)
		}),
	}
	if CheckToken(o.Name) == nil {
		options = append(options, nats.CustomInboxPrefix("_INBOX."+o.Name))
	}
	if o.InProcess != nil {
		options = append(options, nats.InProcessServer(o.InProcess))
	}
	credentials, err := o.Credentials.options()
	if err != nil {
		return nil, err
	}
	options = append(options, credentials...)
	for {
		nc, err := nats.Connect(o.URL, options...)
		if err == nil {
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || Pause(ctx, 200*time.Millisecond) != nil {
			return nil, fmt.Errorf("connect to NATS at %s: %w", redact.URL(o.URL), redact.Error(err))
		}
	}
}

// SetEvents replaces the properties of the EVENTS stream.
func (b *Conn) SetEvents(info EventsInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.info = info
}

// Events returns the properties of the EVENTS stream, zero ones until they are set.
func (b *Conn) Events() EventsInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.info
}

// Streams returns the configuration of streams as the instruments change it.
func (b *Conn) Streams(all []jetstream.StreamConfig) []jetstream.StreamConfig {
	if b.streams == nil {
		return all
	}
	return b.streams(all)
}
