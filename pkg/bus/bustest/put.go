package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Put stores a message as it is, without what a bus checks before it writes: for what other versions have left in a stream.
func (s Server) Put(t testing.TB, subject string, body []byte) {
	t.Helper()
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), subject, body); err != nil {
		t.Fatal(err)
	}
}
