package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Count counts the messages of a stream on the subjects of a filter, with one request, whatever their number.
func (b *Conn) Count(ctx context.Context, stream, filter string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerWait)
	defer cancel()
	body, err := json.Marshal(getRequest{Seq: 1, NextFor: filter, Batch: 1})
	if err != nil {
		return 0, err
	}
	msg, err := b.NATS.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", filter, err)
	}
	if _, err := directAnswer(msg); errors.Is(err, ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("count %s: %w", filter, err)
	}
	more, err := strconv.Atoi(msg.Header.Get("Nats-Num-Pending")) // after the first one, which is this message
	if err != nil {
		return 0, fmt.Errorf("count %s: the broker answers without a number: %w", filter, err)
	}
	return more + 1, nil
}
