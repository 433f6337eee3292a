package records

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// Steer records a message of a user to a running request. The first write wins; see [Requests.Accept] for the results.
func (b *Commands) Steer(ctx context.Context, tenant string, s record.Steer) (stored record.Steer, first bool, err error) {
	subject, err := b.conn.Subject(broker.KindCommand, tenant, s.RequestID, broker.KindSteer, s.SteerID)
	if err != nil {
		return stored, false, err
	}
	return broker.PutFirst(ctx, b.conn, b.conn.EventsStream(), subject, s)
}

// SteerRecord is a steer with its sequence in the stream.
type SteerRecord struct {
	record.Steer
	Sequence uint64
}

// Steers yields the steers of a request with a sequence above after, in order: all that were acknowledged before the call.
func (b *Commands) Steers(ctx context.Context, log broker.LogID, after uint64) iter.Seq2[SteerRecord, error] {
	return func(yield func(SteerRecord, error) bool) {
		subject, err := b.conn.Subject(broker.KindCommand, log.Tenant, log.RequestID, broker.KindSteer)
		if err != nil {
			yield(SteerRecord{}, err)
			return
		}
		for m, err := range b.conn.Records(ctx, subject+".*", after) {
			s := SteerRecord{Sequence: m.Sequence}
			if err == nil {
				err = m.Decode(&s.Steer)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// abortBacklog bounds the aborts that wait for the callback of WatchAborts.
const abortBacklog = 256

// WatchAborts calls found for the aborts of all tenants as they are stored, one after the other, until ctx is done. It may
// miss some, so a caller also needs a sweep.
func (b *Commands) WatchAborts(ctx context.Context, found func(tenant string, a record.Abort)) error {
	messages := make(chan *nats.Msg, abortBacklog)
	stop, err := b.conn.Subscribe(b.conn.Live(b.conn.Prefix+"."+broker.KindCommand+".*.*."+broker.KindAbort), messages)
	if err != nil {
		return fmt.Errorf("watch aborts: %w", err)
	}
	defer stop()
	for {
		select {
		case msg := <-messages:
			_, tokens := b.conn.Tokens(b.conn.StoredSubject(msg.Subject))
			var a record.Abort
			if err := json.Unmarshal(msg.Data, &a); err != nil || len(tokens) == 0 {
				slog.WarnContext(ctx, "unreadable abort", "subject", msg.Subject, "error", err)
				continue
			}
			found(tokens[0], a)
		case <-ctx.Done():
			return nil
		}
	}
}

// Abort asks for the end of a request. Only the first abort counts; later ones return false.
func (b *Commands) Abort(ctx context.Context, tenant string, a record.Abort) (first bool, err error) {
	subject, err := b.conn.Subject(broker.KindCommand, tenant, a.RequestID, broker.KindAbort)
	if err != nil {
		return false, err
	}
	_, first, err = broker.PutFirst(ctx, b.conn, b.conn.EventsStream(), subject, a)
	return first, err
}

// Aborted returns the abort of a request, or ErrNotFound.
func (b *Commands) Aborted(ctx context.Context, log broker.LogID) (record.Abort, error) {
	subject, err := b.conn.Subject(broker.KindCommand, log.Tenant, log.RequestID, broker.KindAbort)
	if err != nil {
		return record.Abort{}, err
	}
	a, _, err := broker.Get[record.Abort](ctx, b.conn, b.conn.EventsStream(), subject)
	return a, err
}

// CommandList is the abort and the steers of a request.
type CommandList struct {
	Abort    *record.Abort // nil = none
	Steers   []record.Steer
	Sequence uint64 // of the newest command: CommandsAfter continues from it
}

// CommandsAfter returns the commands to a request with a sequence above after (0 = all) that were acknowledged before the
// call. It costs one request to the broker if the request has no new command.
func (b *Commands) CommandsAfter(ctx context.Context, log broker.LogID, after uint64) (CommandList, error) {
	asked := CommandList{Sequence: after}
	subject, err := b.conn.Subject(broker.KindCommand, log.Tenant, log.RequestID, broker.KindAbort)
	if err != nil {
		return asked, err
	}
	for m, err := range b.conn.Records(ctx, strings.TrimSuffix(subject, broker.KindAbort)+">", after) {
		if err != nil {
			return asked, err
		}
		if m.Subject == subject {
			asked.Abort = new(record.Abort)
			err = m.Decode(asked.Abort)
		} else {
			var s record.Steer
			err = m.Decode(&s)
			asked.Steers = append(asked.Steers, s)
		}
		if err != nil {
			return asked, err
		}
		asked.Sequence = m.Sequence
	}
	return asked, nil
}

// WatchAbort calls found once, when the request is aborted or was aborted before. A lost message delays the call: storage is
// read after a second, and then less often. Call stop to end the watch: it returns when found does not run any more.
func (b *Commands) WatchAbort(ctx context.Context, log broker.LogID, found func(record.Abort)) (stop func(), err error) {
	subject, err := b.conn.Subject(broker.KindCommand, log.Tenant, log.RequestID, broker.KindAbort)
	if err != nil {
		return nil, fmt.Errorf("watch for an abort: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		a, err := broker.Await[record.Abort](ctx, b.conn, b.conn.EventsStream(), subject, "", nil)
		if err == nil && ctx.Err() == nil {
			found(a)
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}, nil
}
