package agentrunner

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
)

// objects are the large payloads of a thread.
type objects struct {
	claim            *claim
	bus              Bus
	tenant, threadID string
}

func (c *claim) objects() objects {
	return objects{c, c.runner.deps.Bus, c.log.Tenant, c.accepted.ThreadID}
}

// PutObject implements loop.Objects.
func (o objects) PutObject(ctx context.Context, data []byte) (event.ObjectRef, error) {
	return o.bus.PutObject(ctx, o.tenant, o.threadID, data)
}

// Object implements transcript.Objects. A missing output does not fail the thread.
func (o objects) Object(ctx context.Context, ref event.ObjectRef) ([]byte, error) {
	data, err := o.data(ctx, ref)
	if errors.Is(err, bus.ErrNotFound) {
		return []byte("this output is no longer stored"), nil
	}
	return data, err
}

func (o objects) data(ctx context.Context, ref event.ObjectRef) (data []byte, err error) {
	err = o.claim.retry(ctx, "a stored payload", func(ctx context.Context) (err error) {
		data, err = o.bus.Object(ctx, o.tenant, o.threadID, ref)
		return err
	})
	return data, err
}
