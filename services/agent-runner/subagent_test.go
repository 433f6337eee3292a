package agentrunner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestChildRequestWithoutASlotIsStopped(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.slots = 1 // four calls may wait
	demo := s.agents["demo"]
	demo.Agents = []string{"helper"}
	s.agents["demo"] = demo
	s.runner("r1")
	const calls = 7
	log := s.say("/tools " + strings.Repeat(`agent__helper {"task":"x"}; `, calls-1) + `agent__helper {"task":"x"}`)
	refused := map[string]bool{} // by call
	events := s.until(log, func(b event.Body) bool {
		if r, ok := b.(event.ToolResult); ok && r.Stage == event.StageStop {
			refused[r.ToolCallID] = true
		}
		return len(refused) == calls-4
	})
	for _, call := range find[event.ToolCall](events) {
		if call.Stage != event.StageStop {
			continue
		}
		child := bus.LogID{Tenant: tenant, RequestID: record.ChildRequest(log.RequestID, call.ToolCallID)}
		_, err := s.bus.Aborted(t.Context(), child)
		if stopped := err == nil; stopped != refused[call.ToolCallID] || err != nil && !errors.Is(err, bus.ErrNotFound) {
			t.Errorf("call %s: refused %t, its agent stopped %t, %v", call.ToolCallID, refused[call.ToolCallID], stopped, err)
		}
	}
	s.abort(log, time.Now())
	end[event.Aborted](s, log)
}
