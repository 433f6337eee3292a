package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// Tap listens to everything that clients of a server say to it and to one another. It is for one goroutine.
type Tap struct {
	t   testing.TB
	nc  *nats.Conn
	sub *nats.Subscription
}

// Tap starts to listen, until the test ends.
func (s Server) Tap(t testing.TB) *Tap {
	t.Helper()
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	tap := &Tap{t, nc, sub}
	tap.Received()
	return tap
}

// Received returns the subjects of the messages received since it was called last: of all that the server had before the call.
func (p *Tap) Received() []string {
	p.t.Helper()
	const mark = "tap.mark"
	if err := p.nc.Publish(mark, nil); err != nil {
		p.t.Fatal(err)
	}
	var subjects []string
	for {
		m, err := p.sub.NextMsgWithContext(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		if m.Subject == mark {
			return subjects
		}
		subjects = append(subjects, m.Subject)
	}
}
