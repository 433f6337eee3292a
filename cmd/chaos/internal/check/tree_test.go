package check

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	upper = "req_upper" // calls lower
	lower = "req_lower"
)

// family is a run without a violation in which one agent calls another.
func family(t *testing.T) *Run {
	t.Helper()
	r := good(t)
	below := accepted(r, lower, "thr_lower", 0, nil)
	below.Accepted.AgentID = "helper"
	below.Accepted.Caller = &record.Caller{RequestID: upper, ThreadID: "thr_upper", ToolCallID: "call_u", Agents: []string{"lead"}}
	write(t, below, lower, 1, 102, 2, event.Claim{Epoch: 1}, event.Metadata{ThreadID: "thr_lower"})
	write(t, below, lower, 1, 103, 3, event.Done{ThreadID: "thr_lower", FinishReason: event.FinishStop})
	above := accepted(r, upper, "thr_upper", 0, nil)
	write(t, above, upper, 1, 101, 1, event.Claim{Epoch: 1}, event.Metadata{ThreadID: "thr_upper"},
		event.ToolCall{Block: event.Block{BlockID: "b0", Stage: event.StageStop}, ToolCallID: "call_u", Tool: "agent__helper", Args: json.RawMessage(`{}`)})
	copyOf(t, above, 104, below.Frames[0], 1)
	copyOf(t, above, 105, below.Frames[1], 0)
	write(t, above, upper, 1, 106, 5, event.ToolResult{
		Block: event.Block{BlockID: "b1", Stage: event.StageStop}, ToolCallID: "call_u", Tool: "agent__helper", Status: event.ToolSuccess,
	}, event.Done{ThreadID: "thr_upper", FinishReason: event.FinishStop})
	for _, request := range []string{lower, upper} {
		project(r, request)
	}
	return r
}

// copyOf shows an event of a frame in the log of its caller.
func copyOf(t *testing.T, above *Log, sequence uint64, f event.Frame, n uint64) {
	t.Helper()
	for line := range f.Each() {
		if line.N == f.First+n {
			inner := jsontext.Value(line.JSON).Clone()
			write(t, above, upper, 1, sequence, 4, event.Subagent{ToolCallID: "call_u", AgentID: "helper", Inner: json.RawMessage(inner)})
		}
	}
}

func TestATreeOfAgents(t *testing.T) {
	t.Parallel()
	if found := family(t).trees(); len(found) > 0 {
		t.Fatalf("a good run: got %v", found)
	}
	tests := []struct {
		what  string
		spoil func(r *Run, above, below *Log)
		want  string // part of a violation
	}{
		{"the caller has no record", func(r *Run, _, _ *Log) { delete(r.Logs, id(upper)) }, "no record"},
		{"no call asked for it", func(_ *Run, _, below *Log) { below.Accepted.Caller.ToolCallID = "call_x" }, "no log has the call"},
		{"a call made two requests", func(r *Run, _, below *Log) {
			r.Logs[id("req_lower2")] = below
		}, "as well"},
		{"the caller ended first", func(_ *Run, _, below *Log) { below.Frames[1].Sequence = 107 }, "was not aborted"},
		{"an event is missing", func(_ *Run, above, _ *Log) { above.Frames = append(above.Frames[:1:1], above.Frames[2:]...) }, "at place 0"},
		{"an event came twice", func(_ *Run, above, _ *Log) {
			above.Frames = append(above.Frames[:2:2], append([]event.Frame{above.Frames[1]}, above.Frames[2:]...)...)
		}, "at place 1"},
		{"the last event is missing", func(_ *Run, above, _ *Log) { above.Frames = append(above.Frames[:2:2], above.Frames[3:]...) }, "shows 1 of 2"},
		{"every event is missing", func(_ *Run, above, _ *Log) { above.Frames = append(above.Frames[:1:1], above.Frames[3:]...) }, "shows 0 of 2"},
	}
	for _, test := range tests {
		r := family(t)
		test.spoil(r, r.Logs[id(upper)], r.Logs[id(lower)])
		var all []string
		for _, v := range r.trees() {
			all = append(all, v.String())
		}
		if text := strings.Join(all, "\n"); !strings.Contains(text, test.want) {
			t.Errorf("%s: got %q, want %q in it", test.what, text, test.want)
		}
	}
	taken := map[string]int{}
	family(t).countTrees(taken)
	if taken[PathCalled] != 1 || taken[PathNested] != 0 {
		t.Errorf("counted %v, want one call", taken)
	}
}
