package event_test

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestHasToolOutput(t *testing.T) {
	t.Parallel()
	const delta = `{"event":"tool_result","blockId":"b","stage":"delta","toolCallId":"c","delta":"secret"}`
	const stop = `{"event":"tool_result","blockId":"b","stage":"stop","toolCallId":"c","summary":"\"stage\":\"delta\""}`
	tests := []struct {
		does string
		line event.Line
		want bool
	}{
		{"what the model reads", event.Line{Name: event.NameToolOutput, JSON: []byte(`{}`)}, true},
		{"what a tool prints", event.Line{Name: event.NameToolResult, JSON: []byte(delta)}, true},
		{"the end of a result", event.Line{Name: event.NameToolResult, JSON: []byte(stop)}, false},
		{"a delta of text", event.Line{Name: event.NameText, JSON: []byte(`{"event":"text","stage":"delta"}`)}, false},
		{"a delta of arguments", event.Line{Name: event.NameToolCall, JSON: []byte(`{"event":"tool_call","stage":"delta"}`)}, false},
		{"output of a subagent", event.Line{Name: event.NameSubagent, JSON: []byte(`{"event":"subagent","inner":` + delta + `}`)}, true},
		{"output of its subagent", event.Line{
			Name: event.NameSubagent, JSON: []byte(`{"inner":{"event":"subagent","inner":` + delta + `}}`),
		}, true},
		{"a result of a subagent", event.Line{Name: event.NameSubagent, JSON: []byte(`{"inner":` + stop + `}`)}, false},
		{"a result that cannot be read", event.Line{Name: event.NameToolResult, JSON: []byte(`{"stage":`)}, true},
		{"a subagent without an event", event.Line{Name: event.NameSubagent, JSON: []byte(`{}`)}, true},
	}
	for _, tt := range tests {
		t.Run(tt.does, func(t *testing.T) {
			t.Parallel()
			if got := tt.line.HasToolOutput(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
