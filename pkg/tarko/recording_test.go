package tarko_test

import (
	"reflect"
	"testing"

	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/agentbus/agentbus/pkg/tarko/tarkotest"
	"github.com/go-json-experiment/json"
)

// TestRecordedEventsFitOurPayloads reads what Tarko itself emitted into our types and holds it against our schemas.
func TestRecordedEventsFitOurPayloads(t *testing.T) {
	t.Parallel()
	payloads := map[tarko.Type]tarko.Payload{}
	for _, p := range []tarko.Payload{
		tarko.UserMessage{}, tarko.AssistantMessage{}, tarko.AssistantStreamingMessage{}, tarko.AssistantStreamingToolCall{},
		tarko.ToolCall{}, tarko.ToolResult{}, tarko.AgentRunStart{}, tarko.PlanStart{}, tarko.PlanUpdate{}, tarko.PlanFinish{},
		tarko.System{},
	} {
		payloads[p.Type()] = p
	}
	known := registry(t, eventstream.Flat, "tarko/flat")
	for _, name := range []string{tarkotest.Planner, tarkotest.Weather} {
		for _, e := range tarkotest.Open(t, name).Events {
			payload := reflect.New(reflect.TypeOf(payloads[tarko.Type(e.Type)])).Interface()
			if err := json.Unmarshal(e.Data, payload, json.RejectUnknownMembers(true)); err != nil {
				t.Errorf("%s: %s %s: %v", name, e.Type, e.ID, err)
			}
			if err := known.Validate(e); err != nil {
				t.Errorf("%s: %s %s: %v", name, e.Type, e.ID, err)
			}
		}
	}
}
