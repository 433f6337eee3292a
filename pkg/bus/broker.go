package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// broker is all that the protocols of logs and records ask of JetStream. [server] asks a real one; the simulation in
// the tests answers with the faults that a real one has. It is safe for concurrent use.
type broker interface {
	// publish sends msg once and returns the answer. After an error the message may be stored or not.
	publish(ctx context.Context, msg *nats.Msg) (pubAck, error)
	// lastOfLeader returns the newest message on subject as the stream's leader knows it, or ErrNotFound.
	lastOfLeader(ctx context.Context, stream, subject string) (stored, error)
	// lastDirect is the same from whichever replica answers first: fast, perhaps stale.
	lastDirect(ctx context.Context, stream, subject string) (stored, error)
	// firstOfLeader returns the oldest message on subject with a sequence of at least from, as the stream's leader knows it, or
	// ErrNotFound.
	firstOfLeader(ctx context.Context, stream, subject string, from uint64) (stored, error)
	// delivered returns the sequence of the newest message that a consumer has given to anyone.
	delivered(ctx context.Context, stream, consumer string) (uint64, error)
	// remove deletes the message with a sequence, if it is there.
	remove(ctx context.Context, stream string, sequence uint64) error
	// nextDirect returns the first message on subject with a sequence of at least from, perhaps stale, or ErrNotFound.
	nextDirect(ctx context.Context, stream, subject string, from uint64) (stored, error)
	// page returns the next messages on subject with a sequence of at least from, and whether more follow, perhaps stale.
	page(ctx context.Context, stream, subject string, from uint64, size pageSize) (messages []stored, more bool, err error)
	// subscribe sends what comes on subject into messages, and drops what finds it full, until stop is called.
	subscribe(subject string, messages chan *nats.Msg) (stop func(), err error)
	// flush waits until the broker has seen everything that was sent before, subscriptions above all.
	flush(ctx context.Context) error
}

// pubAck is the broker's answer to a publish.
type pubAck struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// publishWait bounds the wait for one answer to a publish. It is short, for the answer may have died with its connection,
// and whoever publishes tries again with the same message.
const publishWait = 2 * time.Second

// server is the broker behind a connection. storage.go has its reads.
type server struct {
	nc   *nats.Conn
	link *link
}

// request sends msg and waits for the answer: for so long at most, and no longer than the connection lasts.
func (s server) request(ctx context.Context, msg *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := s.link.within(ctx, wait)
	defer cancel()
	answer, err := s.nc.RequestMsgWithContext(ctx, msg)
	return answer, lostDuring(ctx, err)
}

func (s server) publish(ctx context.Context, msg *nats.Msg) (pubAck, error) {
	answer, err := s.request(ctx, msg, publishWait)
	if err != nil {
		return pubAck{}, err
	}
	var ack pubAck
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return pubAck{}, fmt.Errorf("read the broker's answer: %w", err)
	}
	return ack, nil
}

func (s server) subscribe(subject string, messages chan *nats.Msg) (stop func(), err error) {
	sub, err := s.nc.ChanSubscribe(subject, messages)
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only when the connection is gone, and the subscription with it
}

func (s server) flush(ctx context.Context) error {
	ctx, cancel := s.link.within(ctx, answerWait)
	defer cancel()
	return lostDuring(ctx, s.nc.FlushWithContext(ctx))
}
