package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Broker is what logs, records and queues need of JetStream. [Server] is a real one; the simulation in the tests answers with
// the errors that a real one has. It is safe for concurrent use.
type Broker struct {
	Publisher
	Reader
	Subscriber
}

// Publisher stores and deletes messages.
type Publisher interface {
	// Publish sends msg once and returns the response. After an error the message may be stored or not.
	Publish(ctx context.Context, msg *nats.Msg) (PubAck, error)
	// Remove deletes the message with a sequence, if it exists.
	Remove(ctx context.Context, stream string, sequence uint64) error
}

// Reader reads what is stored. The leader of a stream has every acknowledged message; a direct read is faster, and may be
// stale.
type Reader interface {
	// LastOfLeader returns the newest message on subject that the leader has, or ErrNotFound.
	LastOfLeader(ctx context.Context, stream, subject string) (Message, error)
	// LastDirect returns the newest message on subject that any replica has, or ErrNotFound.
	LastDirect(ctx context.Context, stream, subject string) (Message, error)
	// FirstOfLeader returns the oldest message on subject with a sequence of at least from that the leader has, or
	// ErrNotFound.
	FirstOfLeader(ctx context.Context, stream, subject string, from uint64) (Message, error)
	// NextDirect returns the first message on subject with a sequence of at least from that any replica has, or ErrNotFound.
	NextDirect(ctx context.Context, stream, subject string, from uint64) (Message, error)
	// Page returns the next messages on subject with a sequence of at least from that any replica has, and whether more
	// follow.
	Page(ctx context.Context, stream, subject string, from uint64, size PageSize) (messages []Message, more bool, err error)
	// Delivered returns the sequence of the newest message that was delivered to a consumer.
	Delivered(ctx context.Context, stream, consumer string) (uint64, error)
}

// Subscriber receives messages as they are published.
type Subscriber interface {
	// Subscribe sends the messages on subject into messages until stop is called. It drops those for which the channel has
	// no space.
	Subscribe(subject string, messages chan *nats.Msg) (stop func(), err error)
	// Flush waits until the broker has processed everything that was sent before, subscriptions included.
	Flush(ctx context.Context) error
}

// PubAck is the broker's answer to a publish.
type PubAck struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// publishWait bounds the wait for one response to a publish. It is short, because the response may be lost with its
// connection, and the caller retries with the same message.
const publishWait = 2 * time.Second

// Server is the broker at the other end of a connection. storage.go has its reads.
type Server struct {
	nc   *nats.Conn
	link *Link
}

// request sends msg and waits for the response, for at most wait and while the connection lasts.
func (s Server) request(ctx context.Context, msg *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := s.link.Within(ctx, wait)
	defer cancel()
	answer, err := s.nc.RequestMsgWithContext(ctx, msg)
	return answer, lostDuring(ctx, err)
}

// Publish is as in [Publisher].
func (s Server) Publish(ctx context.Context, msg *nats.Msg) (PubAck, error) {
	answer, err := s.request(ctx, msg, publishWait)
	if err != nil {
		return PubAck{}, err
	}
	var ack PubAck
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return PubAck{}, fmt.Errorf("read the broker's answer: %w", err)
	}
	return ack, nil
}

// Subscribe is as in [Subscriber].
func (s Server) Subscribe(subject string, messages chan *nats.Msg) (stop func(), err error) {
	sub, err := s.nc.ChanSubscribe(subject, messages)
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only when the connection is gone, and the subscription with it
}

// Flush is as in [Subscriber].
func (s Server) Flush(ctx context.Context) error {
	ctx, cancel := s.link.Within(ctx, AnswerWait)
	defer cancel()
	return lostDuring(ctx, s.nc.FlushWithContext(ctx))
}

// Refill is the pause between attempts to read when the broker does not answer.
const Refill = 200 * time.Millisecond

// Now returns the time by the clock of the broker: see bus.Bus.Now.
func (b *Conn) Now() time.Time { return b.Clock.now() }
