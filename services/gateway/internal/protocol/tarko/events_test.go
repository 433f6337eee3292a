package tarko

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// The list has no gap: behind the event that passes the bound comes none, however small.
func TestAListOfLargeEventsEndsWhereItsRoomEnds(t *testing.T) {
	t.Parallel()
	l := lister{selection: selection{limit: maxEvents}, form: eventstream.Event.AppendFlat}
	large := json.RawMessage(`{"content":"` + strings.Repeat("x", 1<<20) + `"}`)
	const sent = 40
	for range sent {
		if err := l.add(eventstream.Event{ID: "large", Type: "tool_result", Data: large}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.add(eventstream.Event{ID: "small", Type: "tool_result"}); err != nil {
		t.Fatal(err)
	}
	if n := len(l.page.Events); n < 7 || n > 8 || strings.Contains(string(l.page.Events[n-1]), "small") {
		t.Errorf("the list has %d events; want those that have room in %d bytes", n, maxListed)
	}
	if l.page.Total != sent+1 {
		t.Errorf("it counts %d, want all %d", l.page.Total, sent+1)
	}
}
