package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/redact"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

const (
	deliveries = 64 // that a gateway sends at one time
	perTarget  = 8  // of them to one host
)

// The times of a delivery that its receiver does not accept.
const (
	firstRetry = 5 * time.Second
	maxRetry   = time.Hour
	giveUp     = 24 * time.Hour // after which the delivery ends
	busyRetry  = 2 * time.Second
)

// retryDelay returns the wait after an attempt, which counts from 1: it doubles, and a part of it is random.
func retryDelay(attempt int) time.Duration {
	wait := maxRetry
	if attempt < 11 {
		wait = min(maxRetry, firstRetry<<max(attempt-1, 0))
	}
	return wait/2 + rand.N(wait/2) //nolint:gosec // a delay is not a secret
}

var (
	errGone = errors.New("the receiver has answered 410 Gone") // it wants no more notifications
	errBusy = errors.New("the receiver is busy")
)

// deliver attempts a delivery once. Its error says when the next attempt is due; nil = the receiver has accepted the delivery,
// or will not.
func (n *Notifier) deliver(ctx context.Context, d record.Delivery, attempt int) error {
	attempted, cancel := context.WithTimeout(ctx, n.limit)
	err := n.attempt(attempted, d)
	cancel()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBusy):
		return &bus.RetryError{After: busyRetry/2 + rand.N(busyRetry), Err: err} //nolint:gosec // a delay is not a secret
	case errors.Is(err, errGone) || n.Bus.Now().Sub(d.At) > giveUp:
		n.Meter.Delivered(ctx, "dropped")
		n.Log.WarnContext(ctx, "a delivery to a webhook ends without success", "webhook", d.WebhookID, "delivery", d.ID, "attempt", attempt,
			telemetry.LogTenant, d.Tenant, telemetry.LogRequest, d.RequestID, "error", err)
		return nil
	default:
		n.Meter.Delivered(ctx, "retried")
		return &bus.RetryError{After: retryDelay(attempt), Err: err}
	}
}

// attempt sends a notification if its receiver still exists. Without an error the delivery has ended.
func (n *Notifier) attempt(ctx context.Context, d record.Delivery) error {
	if d.TaskID == "" {
		to, found := n.receivers[d.WebhookID]
		if !found {
			return nil
		}
		return n.send(ctx, to.URL, d, func() (Notification, error) { return n.report(ctx, to, d) })
	}
	push, found, err := n.Pushes.find(ctx, d)
	if err != nil || !found {
		return err
	}
	final := false
	err = n.send(ctx, push.URL, d, func() (Notification, error) {
		about, err := n.Tasks.Notification(ctx, push, d)
		final = about.Final
		return about, err
	})
	if err == nil && final {
		_, err = n.Pushes.Remove(ctx, d.Tenant, d.ThreadID, push.TaskID, push.ID)
	}
	return err
}

// send makes a notification and sends it, while few others are sent to the host of the address.
func (n *Notifier) send(ctx context.Context, address string, d record.Delivery, notification func() (Notification, error)) error {
	leave, ok := n.targets.enter(hostOf(address))
	if !ok {
		return errBusy
	}
	defer leave()
	about, err := notification()
	if err != nil {
		return fmt.Errorf("make notification %s: %w", d.ID, err)
	}
	if about.Body == nil {
		return nil
	}
	if err := n.post(ctx, address, d, about); err != nil {
		return err
	}
	n.Meter.Delivered(ctx, "accepted")
	return nil
}

// post sends a notification, and returns nil if the receiver has accepted it.
func (n *Notifier) post(ctx context.Context, address string, d record.Delivery, about Notification) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(about.Body))
	if err != nil {
		return redact.Error(err)
	}
	for name, values := range about.Header {
		request.Header[name] = slices.Clone(values)
	}
	request.Header.Set("Content-Type", about.ContentType)
	request.Header.Set("User-Agent", "agentbus")
	request.Header.Set("Webhook-Id", d.ID)
	response, err := n.client.Do(request)
	if err != nil {
		return redact.Error(err)
	}
	defer func() { _ = response.Body.Close() }() // the status is the answer
	_, _ = io.Copy(io.Discard, response.Body)    // so that the connection can be used again
	switch {
	case response.StatusCode == http.StatusGone:
		return errGone
	case response.StatusCode < 200 || response.StatusCode > 299:
		return fmt.Errorf("the receiver has answered %s", response.Status)
	default:
		return nil
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// targets count the deliveries in progress by host, so that a slow receiver does not occupy them all. The zero value is ready to
// use.
type targets struct {
	mu   sync.Mutex
	busy map[string]int
}

// enter reports whether another delivery to a host may begin. The caller calls leave at its end.
func (t *targets) enter(host string) (leave func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == nil {
		t.busy = map[string]int{}
	}
	if t.busy[host] >= perTarget {
		return nil, false
	}
	t.busy[host]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.busy[host]--; t.busy[host] == 0 {
			delete(t.busy, host)
		}
	}, true
}
