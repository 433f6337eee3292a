package agentrunner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestEventsOfApplicationsAreHeldToTheirSchemas(t *testing.T) {
	t.Parallel()
	c, err := newCustomSchemas(map[string]config.Event{"user_feedback": {Schema: map[string]any{
		"type": "object", "required": []any{"rating"}, "properties": map[string]any{"rating": map[string]any{"maximum": 5}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ kind, data, says string }{
		"one that fits":             {"user_feedback", `{"rating":5,"comment":"x"}`, ""},
		"one that is too large":     {"user_feedback", `{"rating":6}`, "/rating: maximum"},
		"one without what it needs": {"user_feedback", `{}`, "rating"},
		"a type without a schema":   {"metric", `{"rating":6}`, ""},
	}
	for name, test := range tests {
		err := c.validate(event.Custom{Type: test.kind, Data: json.RawMessage(test.data)})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %q", name, err, test.says)
		}
	}
	_, err = newCustomSchemas(map[string]config.Event{"user_feedback": {Schema: map[string]any{"type": "objekt"}}})
	if err == nil || !strings.Contains(err.Error(), "events.user_feedback") {
		t.Errorf("an invalid schema: got %v", err)
	}
}
