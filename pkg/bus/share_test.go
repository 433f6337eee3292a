package bus

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestFollowersOfOneLogShareASubscription(t *testing.T) {
	t.Parallel()
	b := open(t)
	log := record.LogID{Tenant: "t", RequestID: id.New(id.Request)}
	before := b.conn.NATS.NumSubscriptions()
	var followers []*eventlog.Follower
	for range 10 {
		f, err := b.Follow(t.Context(), log, 0)
		if err != nil {
			t.Fatal(err)
		}
		followers = append(followers, f)
	}
	if got := b.conn.NATS.NumSubscriptions() - before; got != 1 {
		t.Errorf("ten followers hold %d subscriptions, want 1", got)
	}
	for _, f := range followers {
		f.Close()
		f.Close()
	}
	if got := b.conn.NATS.NumSubscriptions(); got != before {
		t.Errorf("%d subscriptions stayed behind", got-before)
	}
}
