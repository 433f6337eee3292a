package observer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// expiry bounds the wait for messages to expire.
const expiry = time.Minute

// Expire has the streams keep messages for a second until they have none, and then as long as before: everything that the
// run has written is too old.
func (w *Observer) Expire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, expiry)
	defer cancel()
	nc, err := nats.Connect(w.Cluster.NATSURL, nats.Timeout(5*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, name := range []string{eventsStream, resultsStream} {
		if err := expire(ctx, js, name); err != nil {
			return fmt.Errorf("let %s expire: %w", name, err)
		}
	}
	return nil
}

func expire(ctx context.Context, js jetstream.JetStream, name string) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	before := stream.CachedInfo().Config
	short := before
	short.MaxAge, short.Duplicates = time.Second, time.Second
	if _, err := js.UpdateStream(ctx, short); err != nil {
		return err
	}
	for {
		info, err := stream.Info(ctx)
		if err == nil && info.State.Msgs == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	_, err = js.UpdateStream(ctx, before)
	return err
}

// After adds what the streams and the journals hold once late posts were made.
func (w *Observer) After(ctx context.Context, run *check.Run) error {
	later := &check.Run{}
	if err := readStreams(ctx, w.Cluster.NATSURL, later); err != nil {
		return fmt.Errorf("read the streams: %w", err)
	}
	if err := readLines(w.Cluster, ".journal", &later.Executions); err != nil {
		return err
	}
	run.Entries, run.Later = w.Log.Entries(), later
	return nil
}
