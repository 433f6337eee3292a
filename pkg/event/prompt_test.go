package event_test

import (
	"encoding/json"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestPrompt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		action event.ContinuationAction
		want   string
	}{
		{"a question alone", event.ContinuationAction{Question: "Which city?"}, "Which city?"},
		{"a page", event.ContinuationAction{Question: "Log in", URL: "https://example.com"}, "Log in\nOpen https://example.com and answer when that is done."},
		{
			"one value", event.ContinuationAction{
				Question: "Sure?", Schema: json.RawMessage(`{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}`),
			}, "Sure?\n\"sure\": boolean",
		},
		{
			"several values", event.ContinuationAction{Question: "Order", Schema: json.RawMessage(
				`{"type":"object","properties":{"size":{"type":"integer","title":"Size"},"color":{"type":"string","enum":["red","blue"]}},"required":["size"]}`)},
			"Order\nAnswer with a JSON object:\n\"color\": one of red, blue, optional\n\"size\": integer (Size)",
		},
		{"an invalid schema", event.ContinuationAction{Question: "What?", Schema: json.RawMessage(`[]`)}, "What?"},
	}
	for _, tt := range tests {
		if got := tt.action.Prompt(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
