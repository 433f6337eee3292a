package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Open counts the requests of a tenant that wait for a runner or run: those that have a pointer. A pointer is removed
// after the terminal event is stored, so the count is right whatever has crashed, and includes the requests that agents
// make. Requests that wait for another one on their thread have no pointer yet. A pointer that moves from the backlog into
// the queue at this moment may count twice.
func (b *Bus) Open(ctx context.Context, tenant string) (int, error) {
	subject, err := b.subject(kindRequest, tenant)
	if err != nil {
		return 0, err
	}
	queued, err := b.count(ctx, b.requestsStream(), subject+".>")
	if err != nil {
		return 0, err
	}
	parked, err := b.count(ctx, b.backlogStream(), b.parked(subject)+".>")
	return queued + parked, err
}

// count counts the messages of a stream on the subjects of a filter, with one question, whatever their number.
func (b *Bus) count(ctx context.Context, stream, filter string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	body, err := json.Marshal(getRequest{Seq: 1, NextFor: filter, Batch: 1})
	if err != nil {
		return 0, err
	}
	msg, err := b.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", filter, err)
	}
	if _, err := directAnswer(msg); errors.Is(err, ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("count %s: %w", filter, err)
	}
	more, err := strconv.Atoi(msg.Header.Get("Nats-Num-Pending")) // behind the first one, which is this message
	if err != nil {
		return 0, fmt.Errorf("count %s: the broker answers without a number: %w", filter, err)
	}
	return more + 1, nil
}
