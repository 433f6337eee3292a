package tarko

import (
	"context"
	"iter"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// Feed converts a request's events to Tarko's events and sends them to p, until the last one. The events are those of
// client.Client's Stream or Follow, from the start and with client.Extended. It waits for the subscribers of p, so that
// none of them misses an event; see [eventstream.Processor.Drain] for the end.
func Feed(ctx context.Context, p *eventstream.Processor, events iter.Seq2[event.Event, error], v Vocabulary) error {
	for e, err := range Events(events, v) {
		if err != nil {
			return err
		}
		if err := p.SendWait(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
