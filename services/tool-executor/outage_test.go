package toolexecutor_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// TestAResultOutlastsALongOutageOfNATS stops NATS within an unsafe call for longer than a write is tried at first, and than
// the broker waits for an executor: the call is given out again, to another executor as well.
func TestAResultOutlastsALongOutageOfNATS(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), freeAddr(t)
	nats := startNATS(t, dir, addr)
	connect := func() *bus.Bus {
		b, err := bus.Connect(t.Context(), bus.Options{URL: "nats://" + addr, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		if err := b.Provision(t.Context(), bus.Storage{AckWait: 4 * time.Second}); err != nil {
			t.Fatal(err)
		}
		return b
	}
	runs, finish := make(chan struct{}, 2), make(chan struct{})
	probe := newProbe(tool.EffectUnsafe, func(context.Context, tool.Call) (tool.Result, error) {
		runs <- struct{}{}
		<-finish
		return tool.Result{Content: "the only run"}, nil
	})
	b := connect()
	for range 3 {
		start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(connect()), Tools: []tool.Tool{probe}})
	}
	call := newCall(t, "probe", `{}`)
	send(t, b, call)
	<-runs
	nats.Close()
	close(finish)
	time.Sleep(22 * time.Second)
	nats = startNATS(t, dir, addr)
	defer nats.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := b.AwaitToolResult(ctx, logOf(call), call.ToolCallID, func(record.ToolProgress) {})
	if err != nil || result.Status != event.ToolSuccess || result.Content != "the only run" || probe.runs.Load() != 1 {
		t.Errorf("got %s %q after %d runs, %v", result.Status, result.Content, probe.runs.Load(), err)
	}
}

func startNATS(t *testing.T, dir, addr string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: dir, Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := new(loopback.Ports).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
