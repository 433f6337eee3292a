//go:build chaos

package weakbus

import (
	"context"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// recorded is a broker of which a test reads what reaches it.
type recorded struct {
	broker.Reader

	conditional bool
	subscribed  string
}

func (r *recorded) Publish(_ context.Context, msg *nats.Msg) (broker.PubAck, error) {
	r.conditional = msg.Header.Get(jetstream.ExpectedLastSubjSeqHeader) != ""
	return broker.PubAck{Sequence: 1}, nil
}

func (*recorded) Remove(context.Context, string, uint64) error { return nil }

func (*recorded) LastOfLeader(context.Context, string, string) (broker.Message, error) {
	return broker.Message{Header: nats.Header{jetstream.MsgIDHeader: {"ours"}}}, nil
}

func (r *recorded) Subscribe(subject string, _ chan *nats.Msg) (stop func(), err error) {
	r.subscribed = subject
	return func() {}, nil
}

func (*recorded) Flush(context.Context) error { return nil }

// delivery is a message that notes its acknowledgement.
type delivery struct {
	jetstream.Msg

	acknowledged bool
}

func (d *delivery) Ack() error {
	d.acknowledged = true
	return nil
}

// TestEachWeaknessRemovesItsSafeguardAlone names the safeguards that are left with each value of AGENTBUS_WEAKEN.
func TestEachWeaknessRemovesItsSafeguardAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "no-compare-and-set", "no-read-back", "raw-subject", "discard-old", "early-ack", "no-gap-filling"} {
		t.Run("without "+name, func(t *testing.T) {
			t.Parallel()
			r := &recorded{}
			weak := instruments(name, "")
			b := weak.Broker(broker.Broker{Publisher: r, Reader: r, Subscriber: r})
			msg := &nats.Msg{Subject: "agentbus.event.t.r", Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"7"}}}
			if _, err := b.Publish(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
			newest, err := b.LastOfLeader(t.Context(), "EVENTS", msg.Subject)
			if err != nil {
				t.Fatal(err)
			}
			stop, err := b.Subscribe("agentbus.live.event.t.r", make(chan *nats.Msg, 1))
			if err != nil {
				t.Fatal(err)
			}
			stop()
			streams := weak.Streams([]jetstream.StreamConfig{{Name: "AGENTBUS_EVENTS", Discard: jetstream.DiscardNew}})
			pointer := &delivery{}
			weak.Observer.Delivered(pointer)
			for safeguard, removed := range map[string]bool{
				"no-compare-and-set": !r.conditional,
				"no-read-back":       newest.Header.Get(jetstream.MsgIDHeader) == "",
				"raw-subject":        r.subscribed == "agentbus.event.t.r",
				"discard-old":        streams[0].Discard == jetstream.DiscardOld,
				"early-ack":          pointer.acknowledged,
				"no-gap-filling":     weak.Observer.Gap(),
			} {
				if removed != (safeguard == name) {
					t.Errorf("%s: got it removed: %t, want %t", safeguard, removed, safeguard == name)
				}
			}
		})
	}
}
