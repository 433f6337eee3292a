package bus

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/kv"
)

func TestAgentsAreWatched(t *testing.T) {
	t.Parallel()
	b := open(t)
	first := kv.AgentRecord{ID: "home-pc-01", Tenant: "acme", Name: "Home PC", Capabilities: []string{"code"}, Online: true}
	if err := b.PutAgent(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, ready := make(chan kv.AgentRecord, 4), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := b.WatchAgents(ctx, func(a kv.AgentRecord) { changes <- a }, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	defer watch.Wait()
	defer cancel()
	<-ready
	if got := <-changes; !reflect.DeepEqual(got, first) {
		t.Errorf("got %+v before ready, want %+v", got, first)
	}
	gone := kv.AgentRecord{ID: "home-pc-01", Tenant: "acme", Removed: true}
	if err := b.PutAgent(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got := <-changes; !reflect.DeepEqual(got, gone) {
		t.Errorf("got %+v, want that it is gone", got)
	}
	if err := b.PutAgent(t.Context(), kv.AgentRecord{ID: "a.b"}); err == nil {
		t.Error("an id that is not a token was taken")
	}
}
