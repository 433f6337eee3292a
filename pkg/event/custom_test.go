package event_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

func TestCustomEventsHaveNamesAndObjects(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, typ, data string
		wrong           string // "" = it is accepted
	}{
		{"a name of an application", "custom_metric", `{"value":1}`, ""},
		{"a name with a colon and a dot", "shop:cart.changed-2", `{}`, ""},
		{"no data is an empty object", "user_feedback", "", ""},
		{"what an environment shows is an application's event", "environment_input", `{"content":"x"}`, ""},
		{"no name", "", `{}`, "letters"},
		{"a name with a break", "a\nb", `{}`, "letters"},
		{"a name that begins with a digit", "1a", `{}`, "letters"},
		{"a name that is too long", strings.Repeat("a", 65), `{}`, "letters"},
		{"the name of an event of the protocol", "done", `{}`, "choose another"},
		{"the name of an internal event", "tool_output", `{}`, "choose another"},
		{"data that is an array", "x", `[1]`, "object"},
		{"data that is not JSON", "x", `{"a":`, "object"},
		{"data that is too long", "x", `{"a":"` + strings.Repeat("x", event.MaxCustomBytes) + `"}`, "at most"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := event.NewCustom(c.typ, json.RawMessage(c.data))
			if c.wrong == "" {
				if err != nil || got.Type != c.typ || jsontext.Value(got.Data).Kind() != '{' {
					t.Fatalf("got %+v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Fatalf("got %v, want an error with %q", err, c.wrong)
			}
		})
	}
}
