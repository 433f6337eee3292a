//go:build chaos

package bus

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// weakness is what builds for tests have (see cmd/chaos): the name of a safeguard to go without, from AGENTBUS_WEAKEN,
// which shows that the checker sees what the safeguard is for; and a file of marks, from AGENTBUS_MARKS, which shows that
// rare paths were taken. Other builds have neither.
type weakness struct {
	name  string
	marks *marks
}

func newWeakness() weakness {
	return weakness{name: os.Getenv("AGENTBUS_WEAKEN"), marks: &marks{path: os.Getenv("AGENTBUS_MARKS")}}
}

func (w weakness) broker(b broker) broker { return weakBroker{b, w} }

func (w weakness) earlyAck() bool     { return w.name == "early-ack" }
func (w weakness) noGapFilling() bool { return w.name == "no-gap-filling" }

// fewMessages of one log are soon there. It is a limit that no gateway looks at before it takes a request.
const fewMessages = 20

// streams changes what is provisioned, and what is verified with it.
func (w weakness) streams(all []jetstream.StreamConfig, events string) []jetstream.StreamConfig {
	if w.name != "discard-old" {
		return all
	}
	for i := range all {
		all[i].Discard, all[i].DiscardNewPerSubject = jetstream.DiscardOld, false
		if all[i].Name == events {
			all[i].MaxMsgsPerSubject = fewMessages
		}
	}
	return all
}

// reached marks that a rare path was taken.
func (w weakness) reached(what string) { w.marks.add(mark{What: what}) }

// fenced marks that the writer of an epoch took itself for fenced by the message at sequence.
func (w weakness) fenced(subject string, sequence, epoch uint64) {
	w.marks.add(mark{What: "fenced", Subject: subject, Sequence: sequence, Epoch: epoch})
}

// ending marks when the writer of an epoch was given the terminal event, by the clock of the machine.
func (w weakness) ending(subject string, epoch uint64) {
	w.marks.add(mark{What: "ending", Subject: subject, Epoch: epoch, At: weaken.MachineTime()})
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
// missed by whoever requires it.
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
	broker
	weak weakness
}

func (b weakBroker) publish(ctx context.Context, msg *nats.Msg) (pubAck, error) {
	if b.weak.name == "no-compare-and-set" {
		msg.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	}
	ack, err := b.broker.publish(ctx, msg)
	switch {
	case err != nil:
	case ack.Error != nil && ack.Error.ErrorCode == codeWrongLastR3:
		b.weak.reached("in-process")
	case ack.Error != nil:
	case strings.HasSuffix(ack.Stream, "_EVENTS"):
		b.weak.marks.add(mark{What: "acknowledged", Subject: msg.Subject, Sequence: ack.Sequence})
	}
	if err == nil && ack.Duplicate {
		b.weak.reached("duplicate")
	}
	return ack, err
}

func (b weakBroker) lastOfLeader(ctx context.Context, stream, subject string) (stored, error) {
	return b.forget(b.broker.lastOfLeader(ctx, stream, subject))
}

func (b weakBroker) lastDirect(ctx context.Context, stream, subject string) (stored, error) {
	return b.forget(b.broker.lastDirect(ctx, stream, subject))
}

// forget hides whose a message is, so that nobody finds the own one again.
func (b weakBroker) forget(s stored, err error) (stored, error) {
	if b.weak.name == "no-read-back" && s.Header != nil {
		s.Header.Del(jetstream.MsgIDHeader)
	}
	return s, err
}

// subscribe listens to what is written to a log instead of what is stored of it. The broker puts no sequence on that.
func (b weakBroker) subscribe(subject string, messages chan *nats.Msg) (stop func(), err error) {
	tokens := strings.Split(subject, ".")
	if b.weak.name != "raw-subject" || len(tokens) < 3 || tokens[1] != kindLive || tokens[2] != kindEvent {
		return b.broker.subscribe(subject, messages)
	}
	raw := make(chan *nats.Msg, cap(messages))
	unsubscribe, err := b.broker.subscribe(strings.Join(slices.Delete(tokens, 1, 2), "."), raw)
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
