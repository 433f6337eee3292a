//go:build chaos

package weakbus

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// weakness is the safeguard that a program goes without, and the file of its marks.
type weakness struct {
	broker.Unobserved
	name  string
	marks *marks
}

// Instruments removes the safeguard that AGENTBUS_WEAKEN names, which shows that the checker detects its absence, and writes
// marks to the file that AGENTBUS_MARKS names, which shows that rare paths were taken.
func Instruments() bus.Instruments {
	return instruments(os.Getenv("AGENTBUS_WEAKEN"), os.Getenv("AGENTBUS_MARKS"))
}

func instruments(name, path string) bus.Instruments {
	w := weakness{name: name, marks: &marks{path: path}}
	return bus.Instruments{Broker: w.decorate, Streams: w.streams, Observer: w}
}

func (w weakness) decorate(b broker.Broker) broker.Broker {
	weak := weakBroker{b, w}
	return broker.Broker{Publisher: weak, Reader: weak, Subscriber: weak}
}

// fewMessages is a limit for the messages of one log that a test reaches soon, and that no gateway checks.
const fewMessages = 20

func (w weakness) streams(all []jetstream.StreamConfig) []jetstream.StreamConfig {
	if w.name != "discard-old" {
		return all
	}
	for i := range all {
		all[i].Discard, all[i].DiscardNewPerSubject = jetstream.DiscardOld, false
		if strings.HasSuffix(all[i].Name, "_EVENTS") {
			all[i].MaxMsgsPerSubject = fewMessages
		}
	}
	return all
}

// Reached marks that a rare path was taken.
func (w weakness) Reached(path string) { w.marks.add(mark{What: path}) }

// Fenced marks that the writer of an epoch took itself for fenced.
func (w weakness) Fenced(subject string, sequence, epoch uint64) {
	w.marks.add(mark{What: "fenced", Subject: subject, Sequence: sequence, Epoch: epoch})
}

// Ending marks when the writer of an epoch received the terminal event, by the clock of the machine.
func (w weakness) Ending(subject string, epoch uint64) {
	w.marks.add(mark{What: "ending", Subject: subject, Epoch: epoch, At: weaken.MachineTime()})
}

// Delivered acknowledges a message before its handler, if that is the weakness.
func (w weakness) Delivered(msg jetstream.Msg) {
	if w.name == "early-ack" {
		_ = msg.Ack()
	}
}

// Gap marks a gap. Followers skip it if that is the weakness.
func (w weakness) Gap() (skip bool) {
	w.Reached("gap")
	return w.name == "no-gap-filling"
}

// mark is a line of the file.
type mark struct {
	What     string    `json:"what"`
	Subject  string    `json:"subject,omitempty"`
	Sequence uint64    `json:"sequence,omitzero"`
	Epoch    uint64    `json:"epoch,omitzero"`
	At       time.Time `json:"at,omitzero"`
}

// marks is the file. It is safe for concurrent use.
type marks struct {
	path string
	mu   sync.Mutex
	file *os.File
}

// add writes a line with one call, so that a process which is killed leaves whole lines. A mark that cannot be written is
// missing in the check that requires it.
func (m *marks) add(one mark) {
	if m == nil || m.path == "" {
		return
	}
	line, err := json.Marshal(one)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		if m.file, err = os.OpenFile(m.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return
		}
	}
	_, _ = m.file.Write(append(line, '\n'))
}

// weakBroker goes without safeguards that lie between the bus and the broker, and marks what the broker answers.
type weakBroker struct {
	broker.Broker
	weak weakness
}

func (b weakBroker) Publish(ctx context.Context, msg *nats.Msg) (broker.PubAck, error) {
	if b.weak.name == "no-compare-and-set" {
		msg.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	}
	ack, err := b.Broker.Publish(ctx, msg)
	switch {
	case err != nil:
	case ack.Error != nil && ack.Error.ErrorCode == broker.CodeWrongLastR3:
		b.weak.Reached("in-process")
	case ack.Error != nil:
	case strings.HasSuffix(ack.Stream, "_EVENTS"):
		b.weak.marks.add(mark{What: "acknowledged", Subject: msg.Subject, Sequence: ack.Sequence})
	}
	if err == nil && ack.Duplicate {
		b.weak.Reached("duplicate")
	}
	return ack, err
}

func (b weakBroker) LastOfLeader(ctx context.Context, stream, subject string) (broker.Message, error) {
	return b.forget(b.Broker.LastOfLeader(ctx, stream, subject))
}

func (b weakBroker) LastDirect(ctx context.Context, stream, subject string) (broker.Message, error) {
	return b.forget(b.Broker.LastDirect(ctx, stream, subject))
}

// forget removes the id of a message, so that a writer does not recognise its message.
func (b weakBroker) forget(s broker.Message, err error) (broker.Message, error) {
	if b.weak.name == "no-read-back" && s.Header != nil {
		s.Header.Del(jetstream.MsgIDHeader)
	}
	return s, err
}

// Subscribe listens to what is written to a log instead of what is stored of it. The broker puts no sequence on that.
func (b weakBroker) Subscribe(subject string, messages chan *nats.Msg) (stop func(), err error) {
	tokens := strings.Split(subject, ".")
	if b.weak.name != "raw-subject" || len(tokens) < 3 || tokens[1] != broker.KindLive || tokens[2] != broker.KindEvent {
		return b.Broker.Subscribe(subject, messages)
	}
	raw := make(chan *nats.Msg, cap(messages))
	unsubscribe, err := b.Broker.Subscribe(strings.Join(slices.Delete(tokens, 1, 2), "."), raw)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { // ends with the subscription
		for {
			select {
			case msg := <-raw:
				pass(msg, messages)
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		unsubscribe()
	}, nil
}

// pass gives on a message as one that was stored, unless its readers are slow.
func pass(msg *nats.Msg, messages chan *nats.Msg) {
	msg.Header.Set("Nats-Sequence", "1")
	select {
	case messages <- msg:
	default:
	}
}
