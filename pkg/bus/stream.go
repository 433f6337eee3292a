package bus

import (
	"cmp"
	"context"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/kv"
	"github.com/agentbus/agentbus/pkg/bus/objects"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Storage says how Provision makes the streams.
type Storage struct {
	Replicas int           // 1 (default) or 3
	Memory   bool          // keep nothing on disk: tests
	MaxAge   time.Duration // how long events, results of tools and large payloads are kept; default DefaultMaxAge
	MaxBytes int64         // of events, results of tools and large payloads, each; -1 = none; 0 = 10 GiB (1 in memory), or what there is room for
	MaxQueue int64         // requests, and calls of tools, that may wait or run; default 100,000
	AckWait  time.Duration // how long a dead worker keeps its message; default 10s
}

const (
	// DefaultMaxAge is how long the streams keep what they hold unless Storage says otherwise.
	DefaultMaxAge = 72 * time.Hour
	// minMaxAge is the shortest time that Provision accepts.
	minMaxAge = time.Second
)

// duplicates is the time in which a repeated Nats-Msg-Id is recognised. All retries are shorter.
const duplicates = 10 * time.Minute

// duplicateWindow is duplicates, or less on a stream that keeps messages for less: the server accepts no window that is
// longer than the age.
func duplicateWindow(maxAge time.Duration) time.Duration {
	if maxAge <= 0 {
		return duplicates // no limit of age
	}
	return min(duplicates, maxAge)
}

// defaultAckWait is how long a delivered message may go without a progress report before it is delivered to another
// consumer. Reports are sent four times as often. With a shorter time, the election of a leader would make two processes do
// the same work; with a longer one, the requests of a dead process would wait longer.
const defaultAckWait = 10 * time.Second

// defaultMaxQueue bounds a work queue: far more than anyone waits for, and little on a disk.
const defaultMaxQueue = 100_000

// streams is the shape of our streams; Storage fills in the rest.
func (b *Bus) streams(s Storage) []jetstream.StreamConfig {
	storage := jetstream.FileStorage
	if s.Memory {
		storage = jetstream.MemoryStorage
	}
	journal := func(name string, kinds ...string) jetstream.StreamConfig {
		c := jetstream.StreamConfig{
			Name: name, Storage: storage, Replicas: max(s.Replicas, 1),
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, AllowDirect: true,
			MaxAge: s.MaxAge, MaxBytes: s.MaxBytes, Duplicates: duplicateWindow(s.MaxAge),
			RePublish: &jetstream.RePublish{Source: b.conn.Prefix + ".>", Destination: b.conn.Prefix + "." + broker.KindLive + ".>"},
		}
		for _, kind := range kinds {
			c.Subjects = append(c.Subjects, b.conn.Wildcard(kind))
		}
		return c
	}
	queue := func(name, kind string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Storage: storage, Replicas: max(s.Replicas, 1), Subjects: []string{b.conn.Wildcard(kind)},
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxMsgs: s.MaxQueue,
			MaxMsgsPerSubject: 1, DiscardNewPerSubject: true, Duplicates: duplicates, AllowDirect: true,
		}
	}
	return b.conn.Streams([]jetstream.StreamConfig{
		journal(b.conn.EventsStream(), broker.KindEvent, broker.KindAccept, broker.KindThread, broker.KindSession, broker.KindCommand),
		journal(b.conn.ResultsStream(), broker.KindStarted, broker.KindResult),
		queue(b.conn.RequestsStream(), broker.KindRequest),
		queue(b.conn.BacklogStream(), broker.KindBacklog),
		queue(b.conn.ToolsStream(), broker.KindTool),
		queue(b.conn.DeliveriesStream(), broker.KindDelivery),
	})
}

// consumer is a durable consumer of a stream.
type consumer struct {
	stream string
	jetstream.ConsumerConfig
}

// consumers lists the durable consumers.
func (b *Bus) consumers(s Storage) []consumer {
	durable := func(stream, name string, pending int, kinds ...string) consumer {
		c := jetstream.ConsumerConfig{
			Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.AckWait, MaxDeliver: -1, MaxAckPending: pending,
		}
		for _, kind := range kinds {
			c.FilterSubjects = append(c.FilterSubjects, b.conn.Wildcard(kind))
		}
		return consumer{stream, c}
	}
	ends := durable(b.conn.EventsStream(), broker.EndsConsumer, 8192, broker.KindEvent)
	ends.HeadersOnly = true
	return []consumer{
		durable(b.conn.RequestsStream(), broker.RunnerConsumer, 100_000, broker.KindRequest),
		durable(b.conn.ToolsStream(), broker.ExecutorConsumer, 100_000, broker.KindTool),
		durable(b.conn.DeliveriesStream(), broker.DeliveryConsumer, 100_000, broker.KindDelivery), // those that wait to be tried again, too
		// All kinds, so that its place can be held against the end of the stream.
		durable(b.conn.EventsStream(), broker.HistoryConsumer, 8192),
		ends,
	}
}

// Provision creates what the bus needs, or changes it to what this build needs, and then verifies it. It is for
// development and for a deployment's own job: services in production only [Bus.Verify].
func (b *Bus) Provision(ctx context.Context, s Storage) error {
	s.MaxAge = cmp.Or(s.MaxAge, DefaultMaxAge)
	if s.MaxAge < minMaxAge {
		return fmt.Errorf("provision streams: %w: the maximum age is %s, must be at least %s", errUnfit, s.MaxAge, minMaxAge)
	}
	s.AckWait = cmp.Or(s.AckWait, defaultAckWait)
	s.MaxQueue = cmp.Or(s.MaxQueue, defaultMaxQueue)
	if s.MaxBytes == 0 {
		var err error
		if s.MaxBytes, err = b.firstMaxBytes(ctx, s); err != nil {
			return err
		}
	}
	for _, c := range b.streams(s) {
		// What an operator noted on the stream stays: its incarnation above all.
		if stream, err := b.conn.JetStream.Stream(ctx, c.Name); err == nil {
			c.Metadata = stream.CachedInfo().Config.Metadata
			delete(c.Metadata, metaProbe)
		}
		if _, err := b.conn.JetStream.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("provision stream %s: %w", c.Name, err)
		}
	}
	for _, c := range b.consumers(s) {
		if _, err := b.conn.JetStream.CreateOrUpdateConsumer(ctx, c.stream, c.ConsumerConfig); err != nil {
			return fmt.Errorf("provision consumer %s of %s: %w", c.Durable, c.stream, err)
		}
	}
	return b.provisionBuckets(ctx, s)
}

func (b *Bus) provisionBuckets(ctx context.Context, s Storage) error {
	replicas := max(s.Replicas, 1)
	for _, provision := range []func(context.Context, kv.Storage) error{
		b.KeyBucket.Provision, b.ToolsetBucket.Provision, b.AgentBucket.Provision,
	} {
		if err := provision(ctx, kv.Storage{Memory: s.Memory, Replicas: replicas}); err != nil {
			return err
		}
	}
	err := b.PushBucket.Provision(ctx, kv.Storage{Memory: s.Memory, Replicas: replicas, MaxAge: s.MaxAge})
	if err != nil {
		return err
	}
	err = b.Store.Provision(ctx, objects.Config{Memory: s.Memory, Replicas: replicas, MaxAge: s.MaxAge, MaxBytes: s.MaxBytes})
	if err != nil {
		return err
	}
	return b.Verify(ctx)
}

const (
	// diskBytes and memoryBytes are the limit of EVENTS, RESULTS and OBJECTS, each, where none is configured and the server
	// has room for it.
	diskBytes   = 10 << 30
	memoryBytes = 1 << 30
	// leastBytes is the smallest limit that is chosen without a configuration.
	leastBytes = 16 << 20
)

// metaProbe is the metadata of an EVENTS stream that was created to find how much space the server has: the limit that it
// and the other streams get. Until then the stream has three times that limit.
const metaProbe = "agentbus.probe"

// firstMaxBytes returns the limit if none is configured: that of the existing stream, or the largest of diskBytes, a half of
// it, and so on, for which the server has space three times. The server reserves the limits of all streams. So the streams
// become full before the server or its disk does, which is detected early enough to end running requests.
func (b *Bus) firstMaxBytes(ctx context.Context, s Storage) (int64, error) {
	events := b.streams(s)[0]
	limit := int64(diskBytes)
	if s.Memory {
		limit = memoryBytes
	}
	for {
		// Other services provision at the same time, so this one looks before each attempt.
		stream, err := b.conn.JetStream.Stream(ctx, events.Name)
		if err == nil {
			return maxBytesOf(stream.CachedInfo().Config), nil
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return 0, fmt.Errorf("look at stream %s: %w", events.Name, err)
		}
		events.MaxBytes, events.Metadata = 3*limit, map[string]string{metaProbe: strconv.FormatInt(limit, 10)}
		_, err = b.conn.JetStream.CreateStream(ctx, events)
		if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			continue
		}
		if answer, ok := errors.AsType[*jetstream.APIError](err); !ok || !insufficient(answer) || limit/2 < leastBytes {
			return 0, fmt.Errorf("provision stream %s with room for 3 times %d bytes: %w", events.Name, limit, err)
		}
		limit /= 2
	}
}

// maxBytesOf returns the limit of an EVENTS stream, or the one that it is to get.
func maxBytesOf(c jetstream.StreamConfig) int64 {
	if limit, err := strconv.ParseInt(c.Metadata[metaProbe], 10, 64); err == nil {
		return limit
	}
	return c.MaxBytes
}

// insufficient reports whether the server, the account or every node of the cluster has too little room for a stream.
func insufficient(answer *jetstream.APIError) bool {
	return answer.ErrorCode != broker.CodeNoSpace && broker.IsFull(answer.ErrorCode) || strings.Contains(answer.Description, "insufficient")
}

// Verify checks that the streams, consumers and buckets exist and have the configuration that the protocols rely on. The
// error says what is wrong and how it must be.
func (b *Bus) Verify(ctx context.Context) error {
	for _, want := range b.streams(Storage{}) {
		info, err := b.conn.StreamInfo(ctx, want.Name)
		if err != nil {
			return err
		}
		if err := checkStream(info.Config, want); err != nil {
			return fmt.Errorf("stream %s is %w: %w", want.Name, errUnfit, err)
		}
		if want.Name == b.conn.EventsStream() {
			if err := b.remember(info); err != nil {
				return fmt.Errorf("stream %s is %w: %w", want.Name, errUnfit, err)
			}
		}
	}
	for _, c := range b.consumers(Storage{}) {
		have, err := b.conn.JetStream.Consumer(ctx, c.stream, c.Durable)
		if err != nil {
			return fmt.Errorf("consumer %s of stream %s: %w (create it, or start one service with NATS_PROVISION=create)",
				c.Durable, c.stream, err)
		}
		config := have.CachedInfo().Config
		if narrowed := len(config.FilterSubjects) > 0 || config.FilterSubject != ""; narrowed && len(c.FilterSubjects) == 0 {
			return fmt.Errorf("consumer %s of stream %s is %w: it leaves subjects out and must have no filter", c.Durable, c.stream, errUnfit)
		}
	}
	return b.openBuckets(ctx)
}

// errUnfit says that the broker, or what is asked of it, must be configured in another way.
var errUnfit = errors.New("not configured as it must be")

// Final reports whether an error of Connect, Provision or Verify is one that waiting does not change.
func Final(err error) bool {
	return errors.Is(err, errUnfit) || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired)
}

func checkStream(have, want jetstream.StreamConfig) error {
	switch {
	case have.Retention != want.Retention:
		return fmt.Errorf("retention is %s, must be %s", have.Retention, want.Retention)
	case have.Discard != want.Discard:
		return errors.New("discard is old, must be new: with old it loses what was acknowledged")
	case want.DiscardNewPerSubject && (!have.DiscardNewPerSubject || have.MaxMsgsPerSubject != want.MaxMsgsPerSubject):
		return fmt.Errorf("it must take %d message a subject and discard the next one as new, or live work is done twice",
			want.MaxMsgsPerSubject)
	case !have.AllowDirect:
		return errors.New("allow_direct is off, must be on")
	case have.Duplicates < duplicateWindow(have.MaxAge):
		return fmt.Errorf("duplicate window is %s, must be at least %s", have.Duplicates, duplicateWindow(have.MaxAge))
	case want.RePublish != nil && (have.RePublish == nil || *have.RePublish != *want.RePublish):
		return fmt.Errorf("republish must be %s -> %s", want.RePublish.Source, want.RePublish.Destination)
	}
	for _, subject := range want.Subjects {
		if !slices.Contains(have.Subjects, subject) {
			return fmt.Errorf("subject %s is missing", subject)
		}
	}
	return nil
}

// remember stores the properties of the EVENTS stream that readers and writers need.
func (b *Bus) remember(info *jetstream.StreamInfo) error {
	incarnation := incarnationOf(info)
	if _, _, err := event.ParseCursor(string(event.NewCursor(incarnation, 0))); err != nil {
		return fmt.Errorf("metadata %s is %.40q: it must be 1 to 16 characters of a-z and 0-9", metaIncarnation, incarnation)
	}
	b.conn.SetEvents(broker.EventsInfo{
		Incarnation: incarnation, Replicas: info.Config.Replicas, MaxAge: info.Config.MaxAge,
	})
	return nil
}

// metaIncarnation is the stream's metadata by which an operator begins a new incarnation.
const metaIncarnation = "agentbus.incarnation"

// incarnationOf names a stream's life: what its metadata says (an operator sets it after a restore), or else the time
// of its creation in twelve characters.
func incarnationOf(info *jetstream.StreamInfo) string {
	if set := info.Config.Metadata[metaIncarnation]; set != "" {
		return set
	}
	text := base32.HexEncoding.WithPadding(base32.NoPadding)
	micros := binary.BigEndian.AppendUint64(nil, uint64(info.Created.UnixMicro()))
	return strings.ToLower(text.EncodeToString(micros[1:]))
}

func (b *Bus) openBuckets(ctx context.Context) error {
	for _, open := range []func(context.Context) error{b.KeyBucket.Open, b.ToolsetBucket.Open, b.AgentBucket.Open, b.PushBucket.Open, b.Open} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return nil
}
