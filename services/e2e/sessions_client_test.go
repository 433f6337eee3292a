package e2e

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/go-json-experiment/json"
)

// members are those of an answer or an event of Tarko's, whatever they are.
type members map[string]any

// tarko calls a route of Tarko's server, and wants a status.
func tarko(t *testing.T, method, route string, body any, status int) members {
	t.Helper()
	text := ""
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
	}
	response := call(t.Context(), t, method, "/api/v1"+route, text)
	answer := readAll(t, response)
	if response.StatusCode != status {
		t.Fatalf("%s %s answers %s with %s, want %d", method, route, response.Status, answer, status)
	}
	var m members
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatalf("%s %s answers %s: %v", method, route, answer, err)
	}
	return m
}

// session makes one and returns its id.
func session(t *testing.T, draft members) string {
	t.Helper()
	return tarko(t, http.MethodPost, "/sessions/create", draft, http.StatusCreated).text("sessionId")
}

// at follows a path of names.
func (m members) at(names ...string) any {
	var value any = map[string]any(m)
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	return value
}

func (m members) text(names ...string) string {
	text, _ := m.at(names...).(string)
	return text
}

// events are those of a list.
func (m members) events() []members {
	list, _ := m["events"].([]any)
	events := make([]members, 0, len(list))
	for _, one := range list {
		event, _ := one.(map[string]any)
		events = append(events, event)
	}
	return events
}

// types is the order of events, with repeats taken together.
func types(events []members) string {
	var all []string
	for _, e := range events {
		all = append(all, e.text("type"))
	}
	return strings.Join(slices.Compact(all), " ")
}

// tarkoStream asks, and reads the server-sent events of a route until they end.
func tarkoStream(t *testing.T, route string, body members) (*http.Response, []sse.Event) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	response := call(t.Context(), t, http.MethodPost, "/api/v1"+route, string(text))
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s: %s", route, response.Status, readAll(t, response))
	}
	reader := sse.NewReader(response.Body)
	var all []sse.Event
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return response, all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func decoded(t *testing.T, events []sse.Event) []members {
	t.Helper()
	all := make([]members, 0, len(events))
	for _, e := range events {
		var m members
		if err := json.Unmarshal(e.Data, &m); err != nil {
			t.Fatalf("%s: %v", e.Data, err)
		}
		all = append(all, m)
	}
	return all
}

const everything = "/think hm\n/say hello\n/tool calculator {\"expression\":\"6*7\"}\n/say done"
