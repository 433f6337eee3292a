package gateway_test

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/record"
)

func TestSocketSendsTheStartAndTheEndOfASession(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	nested, flat, later := b.dial("?format=protocol"), b.dial(""), b.dial("?format=protocol")
	nested.join(id, "0")
	flat.join(id, "0")
	later.join(id, "")
	if m := nested.readAnswer(); m.Type != "session_start" || m.SessionID != id || m.Data["agentName"] != "demo" {
		t.Errorf("from the beginning: got %+v", m)
	}
	began := time.UnixMilli(1_700_000_000_000)
	_, err := b.bus.AdvanceThread(t.Context(), "default", record.Thread{
		ThreadID: id, AgentID: "demo", Deleted: true, At: began,
		Ended: &record.Ended{BeganAt: began, At: began.Add(time.Minute), Messages: 4},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]*peer{"from the beginning": nested, "from now on": later} {
		if m := p.readAnswer(); m.Type != "session_end" || m.SessionID != id || m.Data["messageCount"] != 4.0 || m.Data["duration"] != 60000.0 {
			t.Errorf("%s: got %+v", what, m)
		}
	}
	for what, p := range map[string]*peer{"nested": nested, "flat": flat, "later": later} {
		if m := p.readAnswer(); m.Type != "left" || m.Data["reason"] != "deleted" {
			t.Errorf("%s: got %+v", what, m)
		}
	}
}
