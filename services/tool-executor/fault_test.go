package toolexecutor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

var errLost = errors.New("the answer was lost")

// late is a bus on which another executor starts the call between our look and our record.
type late struct{ *bus.Bus }

func (b late) ToolStarted(ctx context.Context, log bus.LogID, toolCallID string) (record.ToolStarted, error) {
	s := record.ToolStarted{ToolCallID: toolCallID, Executor: "other", At: time.Now()}
	if _, _, err := b.PutToolStarted(ctx, log, s); err != nil {
		return record.ToolStarted{}, err
	}
	return record.ToolStarted{}, bus.ErrNotFound
}

func delayed(b *bus.Bus) toolexecutor.Bus {
	parts := toolexecutor.BusOf(b)
	parts.Results = late{b}
	return parts
}

// lossy is a real bus that stores the first record of each kind and then says that it failed.
type lossy struct {
	*bus.Bus
	started, results, objects *atomic.Int32
}

func (b lossy) PutToolStarted(ctx context.Context, log bus.LogID, s record.ToolStarted) (record.ToolStarted, bool, error) {
	stored, first, err := b.Bus.PutToolStarted(ctx, log, s)
	if b.started.Add(1) == 1 {
		return record.ToolStarted{}, false, errLost
	}
	return stored, first, err
}

func (b lossy) PutToolResult(ctx context.Context, log bus.LogID, r record.ToolResult) (record.ToolResult, bool, error) {
	stored, first, err := b.Bus.PutToolResult(ctx, log, r)
	if b.results.Add(1) == 1 {
		return record.ToolResult{}, false, errLost
	}
	return stored, first, err
}

func (b lossy) PutObject(ctx context.Context, tenant, threadID string, data []byte) (event.ObjectRef, error) {
	if b.objects.Add(1) == 1 {
		return event.ObjectRef{}, errLost
	}
	return b.Bus.PutObject(ctx, tenant, threadID, data)
}

func (b lossy) parts() toolexecutor.Bus {
	parts := toolexecutor.BusOf(b.Bus)
	parts.Results, parts.Objects = b, b
	return parts
}

func TestOfTwoExecutorsAtOnceOneRunsAnUnsafeCall(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := newProbe(tool.EffectUnsafe, says("ran"))
	start(t, toolexecutor.Deps{Bus: delayed(b), Tools: []tool.Tool{p}})
	c := newCall(t, "probe", `{}`)
	send(t, b, c)
	if result := await(t, b, c); result.Status != event.ToolUnknown || p.runs.Load() != 0 {
		t.Errorf("got %s after %d runs, want unknown after none", result.Status, p.runs.Load())
	}
}

func TestLostResponseIsNotAFailure(t *testing.T) {
	t.Parallel()
	b := lossy{bustest.New(t), new(atomic.Int32), new(atomic.Int32), new(atomic.Int32)}
	large := make([]byte, 300<<10)
	for i := range large {
		large[i] = 'x'
	}
	p := newProbe(tool.EffectUnsafe, says(string(large)))
	stop := start(t, toolexecutor.Deps{Bus: b.parts(), Tools: []tool.Tool{p}})
	c := newCall(t, "probe", `{}`)
	send(t, b.Bus, c)
	result := await(t, b.Bus, c)
	stop()
	if result.Status != event.ToolSuccess || result.Ref == nil || p.runs.Load() != 1 {
		t.Errorf("got %s with reference %v after %d runs, want success of one run", result.Status, result.Ref, p.runs.Load())
	}
	if b.started.Load() != 2 || b.results.Load() != 2 || b.objects.Load() != 2 {
		t.Errorf("got %d, %d, %d tries, want two of each", b.started.Load(), b.results.Load(), b.objects.Load())
	}
}
