package toolexecutor_test

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// elsewhere is a bus whose broker has another time than this process.
type elsewhere struct {
	*bus.Bus
	ahead time.Duration
}

func (e elsewhere) Now() time.Time { return e.Bus.Now().Add(e.ahead) }

// TestAWrongClockRefusesNoCall has an executor whose clock is ten minutes ahead of the broker's, or behind it. Deadlines
// are given in the broker's time.
func TestAWrongClockRefusesNoCall(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": -10 * time.Minute, "behind": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			broker := elsewhere{b, ahead}
			parts := toolexecutor.BusOf(b)
			parts.Clock = broker
			start(t, toolexecutor.Deps{Bus: parts, Tools: []tool.Tool{newProbe("", says("ran"))}})
			c := newCall(t, "probe", `{}`)
			c.Deadline = broker.Now().Add(time.Minute)
			send(t, b, c)
			if got := await(t, b, c); got.Status != event.ToolSuccess {
				t.Errorf("a call in time ended with %s: %s", got.Status, got.Content)
			}
			late := newCall(t, "probe", `{}`)
			late.ToolCallID, late.Deadline = "call_late", broker.Now().Add(-time.Second)
			send(t, b, late)
			if got := await(t, b, late); got.Status != event.ToolFailed {
				t.Errorf("a call that came too late ended with %s: %s", got.Status, got.Content)
			}
		})
	}
}
