package projection

import (
	"context"
	"time"
)

// How a batch is gathered. A transaction costs more than the few rows of a small batch, so a batch waits for more messages. It
// fetches them in small parts: messages that the broker delivers at once delay those that it republishes to readers.
const (
	gatherTime = 250 * time.Millisecond
	fetchEvery = 10 * time.Millisecond
	gathered   = 800 // messages in a batch that waits for no more
)

// gather adds to a batch the messages that take returns in the next moments, until the batch is large or a reader waits for
// it (hurry).
func gather[M any](ctx context.Context, batch []M, hurry <-chan struct{}, take func() ([]M, error)) []M {
	enough := time.NewTimer(gatherTime)
	defer enough.Stop()
	tick := time.NewTicker(fetchEvery)
	defer tick.Stop()
	for len(batch) < gathered {
		select {
		case <-tick.C:
		case <-enough.C:
			return batch
		case <-hurry:
			return batch
		case <-ctx.Done():
			return batch
		}
		more, err := take()
		batch = append(batch, more...)
		if err != nil {
			return batch // the next batch starts with the same error
		}
	}
	return batch
}
