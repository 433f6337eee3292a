// Package webhook notifies receivers outside of the system that requests have ended.
//
// A [Notifier] follows the ends of requests in the EVENTS stream, and puts one delivery for each receiver into the queue
// DELIVERIES. The gateways share both. A delivery stays in the queue until its receiver has accepted it, so it survives crashes;
// it may arrive more than once, under the same id. Start at follow.go and deliver.go.
package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
)

// Notification is what a receiver gets about a task.
type Notification struct {
	Body        []byte // nil = nothing is due
	ContentType string
	Header      http.Header
	Final       bool // the task has ended, so that no other notification follows
}

// Tasks makes notifications about tasks. A protocol implements it.
type Tasks interface {
	// Notification returns what a receiver gets after the end of a request.
	Notification(ctx context.Context, push bus.TaskPush, d record.Delivery) (Notification, error)
}

// Deps are the dependencies of a Notifier.
type Deps struct {
	Bus    *bus.Bus
	Tasks  Tasks
	Pushes *Pushes
	Config config.Webhooks
	Secret func(name string) (string, error) // finds the keys of receivers; nil = there are none
	Meter  *metrics.Instruments
	Log    *slog.Logger
}

// Notifier notifies receivers. It is safe for concurrent use.
type Notifier struct {
	Deps
	client    *http.Client
	receivers map[string]receiver // by name
	targets   targets
	limit     time.Duration // of an attempt; default attemptTime
}

// Limits of a delivery.
const (
	answerTime  = 15 * time.Second // for a receiver to answer
	attemptTime = 30 * time.Second // for that, and to read what the notification contains
	maxAnswer   = 16 << 10         // bytes of an answer that are read
)

// New returns a notifier, or an error if the configuration is invalid.
func New(d Deps) (*Notifier, error) {
	allow, err := egress.ParseAllow(d.Config.Allow)
	if err != nil {
		return nil, fmt.Errorf("gateway.webhooks.allow: %w", err)
	}
	receivers, err := openReceivers(d.Config.Receivers, d.Secret)
	if err != nil {
		return nil, err
	}
	client := egress.NewClient(egress.Options{
		PlainHTTP: d.Config.PlainHTTP, Allow: allow, Timeout: answerTime, MaxBody: maxAnswer, MaxRedirects: -1,
	})
	return &Notifier{Deps: d, client: client, receivers: receivers, limit: attemptTime}, nil
}

// retryPause is the wait before a loop that has failed begins again.
const retryPause = time.Second

// Run follows the ends of requests and delivers notifications until ctx is done; then it waits for the deliveries in progress.
func (n *Notifier) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() {
		n.keep(ctx, "ends of requests are not followed", func() error {
			return n.Bus.FollowEnds(ctx, n.wanted, n.ended)
		})
	})
	loops.Go(func() {
		n.keep(ctx, "webhooks are not delivered", func() error {
			return n.Bus.ConsumeDeliveries(ctx, deliveries, n.deliver)
		})
	})
	loops.Wait()
}

// wanted reports whether there is any receiver.
func (n *Notifier) wanted(ctx context.Context) (bool, error) {
	if len(n.receivers) > 0 {
		return true, nil
	}
	return n.Bus.HasTaskPushes(ctx)
}

// keep runs a loop again whenever it fails.
func (n *Notifier) keep(ctx context.Context, failed string, loop func() error) {
	retry := time.NewTicker(retryPause)
	defer retry.Stop()
	for ctx.Err() == nil {
		if err := loop(); err != nil && ctx.Err() == nil {
			n.Log.WarnContext(ctx, failed+"; trying again", "error", err)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}
