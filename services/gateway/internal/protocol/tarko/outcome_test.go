package tarko

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// What a query brings may be more than an answer should hold: then it ends where its room ends, and says so.
func TestAnAnswerHasRoomForSoManyEvents(t *testing.T) {
	t.Parallel()
	o := newOutcome("")
	large := json.RawMessage(`{"content":"` + strings.Repeat("x", 1<<20) + `"}`)
	for n := range 40 {
		if o.HasMore != (len(o.Events) < n) {
			t.Fatalf("after %d events it has %d, and hasMore is %t", n, len(o.Events), o.HasMore)
		}
		if err := o.addNested([]eventstream.Event{{ID: fmt.Sprint(n), Type: "tool_result", Data: large}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(o.Events); n < 2 || n > 3 {
		t.Errorf("it has %d events; want those that have room in %d bytes", n, maxCollected)
	}
}
