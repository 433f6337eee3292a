package bus

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/klauspost/compress/snappy"
)

// TestAForeignConsumerCanReadFrames reads frames by the AsyncAPI document alone.
func TestAForeignConsumerCanReadFrames(t *testing.T) {
	t.Parallel()
	b := open(t)
	log := LogID{Tenant: "t", RequestID: "r"}
	w, _, err := b.Claim(t.Context(), log, "runner", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Emit(event.Custom{Type: "long", Data: []byte(`"` + strings.Repeat("long ", 1000) + `"`)}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	messages, _, err := b.conn.Page(t.Context(), b.conn.EventsStream(), "agentbus.event.t.r", 0, broker.FullPage())
	if err != nil || len(messages) != 2 {
		t.Fatalf("got %d messages, %v, want the claim and the event", len(messages), err)
	}
	for i, want := range []struct{ encoding, event string }{{"", `"event":"claim"`}, {"snappy", `"event":"custom"`}} {
		m := messages[i]
		if got := m.Header.Get("Content-Encoding"); got != want.encoding {
			t.Errorf("frame %d: got Content-Encoding %q, want %q", i, got, want.encoding)
		}
		lines := m.Data
		if want.encoding != "" {
			if lines, err = snappy.Decode(nil, lines); err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
		}
		if !strings.HasPrefix(string(lines), "{") || !strings.HasSuffix(string(lines), "}\n") || !strings.Contains(string(lines), want.event) {
			t.Errorf("frame %d: got %.80q, want JSON lines with %s", i, lines, want.event)
		}
	}
}
