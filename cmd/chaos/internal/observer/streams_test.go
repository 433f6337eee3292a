package observer

import (
	"slices"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// TestTheWitnessReadsWhatTheBusWrites lets the bus write one of everything, and reads it without the bus.
func TestTheWitnessReadsWhatTheBusWrites(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	b := server.Connect(t, "test")
	ctx := t.Context()
	log := bus.LogID{Tenant: "ash", RequestID: "req_1"}
	if _, _, err := b.Accept(ctx, record.Accepted{Tenant: "ash", RequestID: "req_1", ThreadID: "thr_1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AdvanceThread(ctx, "ash", record.Thread{ThreadID: "thr_1", RequestID: "req_1"}, 0); err != nil {
		t.Fatal(err)
	}
	w, _, err := b.Claim(ctx, log, "runner", "build", event.Metadata{ThreadID: "thr_1", AgentID: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Abort(ctx, "ash", record.Abort{RequestID: "req_1", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.PutToolStarted(ctx, log, record.ToolStarted{ToolCallID: "call_1"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.PutToolResult(ctx, log, record.ToolResult{ToolCallID: "call_1", Status: event.ToolSuccess}); err != nil {
		t.Fatal(err)
	}
	for range 200 { // enough for a frame that is compressed
		if err := w.Emit(event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageDelta}, Delta: "again and again"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Emit(event.Aborted{ThreadID: "thr_1"}); err != nil {
		t.Fatal(err)
	}
	w.Close()

	run := &check.Run{Limits: check.Limits{Deadline: time.Hour}}
	if err := readStreams(ctx, server.URL(), run); err != nil {
		t.Fatal(err)
	}
	l := run.Logs[check.ID{Tenant: "ash", Name: "req_1"}]
	if l == nil || l.Accepted == nil || l.Abort == nil || len(l.Started) != 1 || l.Results["call_1"].Status != event.ToolSuccess {
		t.Fatalf("got %+v, want every record", l)
	}
	if l.Terminal() != event.NameAborted || l.Last().Next() != 203 || l.AbortSeq == 0 {
		t.Errorf("got %s at event %d", l.Terminal(), l.Last().Next())
	}
	records := run.Threads[check.ID{Tenant: "ash", Name: "thr_1"}]
	if len(records) != 1 || records[0].RequestID != "req_1" {
		t.Errorf("got thread records %+v", records)
	}
	if run.Stored[l.Last().Sequence] != "agentbus.event.ash.req_1" {
		t.Errorf("got %v", run.Stored)
	}
	for _, v := range run.Check() {
		if slices.Contains([]string{"I1", "I2", "I9", "I10"}, v.Invariant) {
			t.Errorf("got %v, want no violation in the streams", v)
		}
	}
}
