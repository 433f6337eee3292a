package bus

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/kv"
	"github.com/agentbus/agentbus/pkg/tool"
)

func toolset(source string, names ...string) kv.Toolset {
	t := kv.Toolset{Source: source}
	for _, name := range names {
		t.Tools = append(t.Tools, tool.Spec{
			Name: name, Description: "Does.", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.EffectNone, Approval: tool.ApprovalNever,
		})
	}
	return t
}

func TestToolsetsAreWatched(t *testing.T) {
	t.Parallel()
	b := open(t)
	if err := b.PutToolset(t.Context(), toolset("one", "a")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, ready := make(chan kv.Toolset, 8), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := b.WatchToolsets(ctx, func(s kv.Toolset) { changes <- s }, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	defer watch.Wait()
	defer cancel()
	<-ready
	if first := <-changes; first.Source != "one" || len(first.Tools) != 1 {
		t.Errorf("got %+v before ready, want what was there", first)
	}
	for _, next := range []kv.Toolset{toolset("one", "a"), toolset("one", "a", "b"), toolset("two")} {
		if err := b.PutToolset(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	if second := <-changes; len(second.Tools) != 2 {
		t.Errorf("got %+v, want the first that says something new", second)
	}
	if third := <-changes; third.Source != "two" {
		t.Errorf("got %+v, want the other source", third)
	}
}

func TestToolsetsNeedASourceThatIsAToken(t *testing.T) {
	t.Parallel()
	if err := open(t).PutToolset(t.Context(), toolset("a.b")); err == nil {
		t.Error("got nil, want an error")
	}
}
