package observer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The streams that decide.
const (
	eventsStream  = "AGENTBUS_EVENTS"
	resultsStream = "AGENTBUS_RESULTS"
)

// ownConsumers is the prefix of the names of the observer's consumers. NATS removes them some time later.
const ownConsumers = "observer"

// readStreams reads every message of both.
func readStreams(ctx context.Context, url string, run *check.Run) error {
	nc, err := nats.Connect(url, nats.Timeout(5*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	run.Logs, run.Threads, run.Stored = map[check.ID]*check.Log{}, map[check.ID][]check.Thread{}, map[uint64]string{}
	for _, name := range []string{eventsStream, resultsStream} {
		if err := readStream(ctx, js, name, run); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func readStream(ctx context.Context, js jetstream.JetStream, name string, run *check.Run) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	left := stream.CachedInfo().State.Msgs
	if left == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		NamePrefix: ownConsumers + rand.Text(), InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if err := take(name, msg, meta, run); err != nil {
			return fmt.Errorf("message %d on %s: %w", meta.Sequence.Stream, msg.Subject(), err)
		}
		if meta.NumPending == 0 {
			return nil
		}
	}
}

// take adds one message to the evidence.
func take(stream string, msg jetstream.Msg, meta *jetstream.MsgMetadata, run *check.Run) error {
	if stream == eventsStream {
		run.Stored[meta.Sequence.Stream] = msg.Subject()
	}
	tokens := strings.Split(msg.Subject(), ".")
	if len(tokens) < 4 {
		return errBadAnswer
	}
	id := check.ID{Tenant: tokens[2], Name: tokens[3]}
	switch tokens[1] {
	case "event":
		f, err := frameOf(msg, meta)
		l := logOf(run, id)
		l.Frames = append(l.Frames, f)
		return err
	case "accept":
		l := logOf(run, id)
		l.Accepted, l.AcceptedAt = new(record.Accepted), meta.Timestamp
		return json.Unmarshal(msg.Data(), l.Accepted)
	case "thread":
		t := check.Thread{Sequence: meta.Sequence.Stream}
		err := json.Unmarshal(msg.Data(), &t.Thread)
		run.Threads[id] = append(run.Threads[id], t)
		return err
	case "command":
		l, name := logOf(run, id), tokens[len(tokens)-1]
		if name != "abort" {
			l.Steers[name] = check.Steer{Sequence: meta.Sequence.Stream, At: meta.Timestamp}
			return nil
		}
		l.Abort, l.AbortSeq, l.AbortAt = new(record.Abort), meta.Sequence.Stream, meta.Timestamp
		return json.Unmarshal(msg.Data(), l.Abort)
	case "started":
		var started record.ToolStarted
		err := json.Unmarshal(msg.Data(), &started)
		logOf(run, id).Started[started.ToolCallID] = started
		return err
	case "result":
		var result record.ToolResult
		err := json.Unmarshal(msg.Data(), &result)
		logOf(run, id).Results[result.ToolCallID] = result
		return err
	}
	return nil
}

func logOf(run *check.Run, id check.ID) *check.Log {
	if run.Logs[id] == nil {
		run.Logs[id] = &check.Log{
			Started: map[string]record.ToolStarted{}, Results: map[string]record.ToolResult{}, Steers: map[string]check.Steer{},
		}
	}
	return run.Logs[id]
}

// frameOf reads a frame as ARCHITECTURE.md and the AsyncAPI document describe it.
func frameOf(msg jetstream.Msg, meta *jetstream.MsgMetadata) (event.Frame, error) {
	head := msg.Headers().Get("Agentbus-Frame")
	parts := strings.Split(head, "-")
	if len(parts) != 3 {
		return event.Frame{}, fmt.Errorf("header Agentbus-Frame is %.60q", head)
	}
	epoch, errEpoch := strconv.ParseUint(parts[1], 10, 64)
	first, errFirst := strconv.ParseUint(parts[2], 10, 64)
	if errEpoch != nil || errFirst != nil {
		return event.Frame{}, fmt.Errorf("header Agentbus-Frame is %.60q", head)
	}
	names, errNames := event.UnpackNames(msg.Headers().Get("Agentbus-Events"))
	lines, errLines := event.UnpackLines(msg.Data())
	return event.Frame{
		Incarnation: parts[0], Epoch: epoch, First: first, Names: names, Lines: lines,
		Sequence: meta.Sequence.Stream, Time: meta.Timestamp,
	}, errors.Join(errNames, errLines)
}
