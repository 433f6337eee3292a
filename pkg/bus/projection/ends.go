package projection

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

const (
	// endsPause is the wait of FollowEnds before it asks again whether ends are wanted.
	endsPause = time.Second
	// endsAtOnce is how many ends are handled at one time.
	endsAtOnce = 16
)

// FollowEnds calls handle at least once with each request whose terminal event is stored, until ctx is done. While wanted
// returns false it reads nothing, and later continues where it was. A request for which handle fails is passed to it again
// after a pause. All processes that follow share the work. The broker sends the headers of frames alone.
func (b *Source) FollowEnds(
	ctx context.Context, wanted func(context.Context) (bool, error), handle func(context.Context, record.LogID) error,
) error {
	consumer, err := b.conn.Consumer(ctx, b.conn.EventsStream(), broker.EndsConsumer)
	if err != nil && ctx.Err() == nil {
		return err
	}
	for ctx.Err() == nil {
		if want, err := wanted(ctx); err != nil || !want {
			_ = broker.Pause(ctx, endsPause) // the loop ends with ctx
			continue
		}
		batch, err := b.fetch(ctx, consumer)
		if err != nil {
			_ = broker.Pause(ctx, broker.Refill)
		}
		if len(batch) > 0 {
			b.handleEnds(ctx, batch, consumer.CachedInfo().Config.AckWait/4, handle)
		}
	}
	return nil
}

// handleEnds settles a batch of frames, after handle has returned for those that end a request.
func (b *Source) handleEnds(
	ctx context.Context, batch []jetstream.Msg, beat time.Duration, handle func(context.Context, record.LogID) error,
) {
	alive, cancel := context.WithCancel(ctx)
	var heart sync.WaitGroup
	heart.Go(func() { broker.KeepAlive(alive, beat, batch...) })
	defer heart.Wait()
	defer cancel()
	var work errgroup.Group
	work.SetLimit(endsAtOnce)
	for _, msg := range batch {
		_, tokens := b.conn.Tokens(msg.Subject())
		if len(tokens) != 2 || !ends(msg) {
			_ = msg.Ack() // if that fails, the message comes again
			continue
		}
		work.Go(func() error {
			broker.Settle(msg, handle(ctx, record.LogID{Tenant: tokens[0], RequestID: tokens[1]}))
			return nil
		})
	}
	_ = work.Wait() // Settle has handled the errors
}

// ends reports whether a frame has the terminal event of its log.
func ends(msg jetstream.Msg) bool {
	names, err := event.UnpackNames(msg.Headers().Get(eventlog.HeaderEvents))
	if err != nil {
		slog.Error("a message of a log has unreadable headers", "subject", msg.Subject(), "error", err)
		return false
	}
	return len(names) > 0 && names[len(names)-1].IsTerminal()
}
