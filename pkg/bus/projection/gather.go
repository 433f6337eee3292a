package projection

import (
	"context"
	"time"
)

// How a batch is gathered. A transaction costs more than the few rows that a small batch writes, so history is in no hurry
// of its own. It takes the messages in sips, since what a broker hands out at once holds up what it passes on to readers
// meanwhile.
const (
	gatherTime = 250 * time.Millisecond
	sipTime    = 10 * time.Millisecond
	gathered   = 800 // messages: then more is waiting, and so is somebody
)

// gather adds to a batch what take finds in the next moments, until the batch is large or somebody is in a hurry.
func gather[M any](ctx context.Context, batch []M, hurry <-chan struct{}, take func() ([]M, error)) []M {
	enough := time.NewTimer(gatherTime)
	defer enough.Stop()
	sip := time.NewTicker(sipTime)
	defer sip.Stop()
	for len(batch) < gathered {
		select {
		case <-sip.C:
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
			return batch // what it is will show when the next batch begins
		}
	}
	return batch
}
