package tarko_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/eventschema"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// TestSchemasSayWhatIsWrong checks that the reason is listed, not only the schema that failed because of it: every schema of
// Tarko's events refers to others.
func TestSchemasSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	const start = `{"id":"1","type":"`
	tests := []struct {
		name, kind, event string
		want              []string
	}{
		{"a missing member of the envelope", "user_message", start + `user_message","content":"x"}`, []string{"missing property 'timestamp'"}},
		{"missing members", "tool_call", start + `tool_call","timestamp":1}`,
			[]string{"missing properties 'toolCallId', 'name', 'arguments', 'startTime', 'tool'"}},
		{"a value that is not in a list", "agent_run_end",
			start + `agent_run_end","timestamp":1,"sessionId":"s","iterations":1,"elapsedMs":1,"status":"asleep"}`,
			[]string{"/status: value must be one of 'idle', 'executing', 'aborted', 'error'"}},
		{"a member of an element", "plan_update", start + `plan_update","timestamp":1,"sessionId":"s","steps":[{"content":"x"}]}`,
			[]string{"/steps/0: missing property 'done'"}},
		{"several problems", "plan_update", start + `plan_update","timestamp":1,"steps":[{"content":"x","done":1}]}`,
			[]string{"/steps/0/done: got number, want boolean", "missing property 'sessionId'"}},
	}
	schemas := registry(t, eventstream.Flat, "tarko/flat")
	for _, test := range tests {
		err := schemas.Registry.Validate(test.kind, []byte(test.event))
		invalid, ok := errors.AsType[*eventschema.Invalid](err)
		if !ok {
			t.Errorf("%s: got %v, want an *Invalid", test.name, err)
			continue
		}
		slices.Sort(invalid.Problems)
		if !slices.Equal(invalid.Problems, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, invalid.Problems, test.want)
		}
	}
}

// TestSchemasAcceptEventsOfTarko has events that Tarko's server wrote and this one does not.
func TestSchemasAcceptEventsOfTarko(t *testing.T) {
	t.Parallel()
	schemas := registry(t, eventstream.Flat, "tarko/flat")
	for name, event := range map[string]string{
		"a start without stream":   `{"id":"1","type":"agent_run_start","timestamp":1,"sessionId":"s","runOptions":{"input":"hi"}}`,
		"an end that is executing": `{"id":"1","type":"agent_run_end","timestamp":1,"sessionId":"s","iterations":1,"elapsedMs":1,"status":"executing"}`,
	} {
		var kind struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(event), &kind); err != nil {
			t.Fatal(err)
		}
		if err := schemas.Registry.Validate(kind.Type, []byte(event)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
