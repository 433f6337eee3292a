package wire_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
	"github.com/go-json-experiment/json"
)

// oneRun is the log of the suite up to its first terminal event.
func oneRun(t *testing.T) []event.Frame {
	t.Helper()
	log := protocoltest.Log(t)
	return log[:1+slices.IndexFunc(log, event.Frame.Terminal)]
}

// logs are a log for each terminal event.
func logs(t *testing.T) map[string][]event.Frame {
	t.Helper()
	run, all := oneRun(t), map[string][]event.Frame{}
	for _, last := range protocoltest.Log(t) {
		if last.Terminal() {
			last.First = run[len(run)-1].First
			all[string(last.Lines[:60])+string(last.Names[0])] = append(slices.Clone(run[:len(run)-1]), last)
		}
	}
	return all
}

// read returns the events that a codec writes for a log.
func read(t *testing.T, c wire.Codec, from uint64, log []event.Frame) []wire.Event {
	t.Helper()
	enc, err := c.Encoder(codec.Options{From: from})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, f := range log {
		if out, err = enc.Append(out, f); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Contains(out, []byte("\r")) {
		t.Error("a carriage return")
	}
	blocks, rest, err := sse.Parse(out)
	if err != nil || len(rest) > 0 {
		t.Fatalf("rest %q, %v", rest, err)
	}
	var events []wire.Event
	for _, b := range blocks {
		if bytes.Contains(b.Data, []byte(":null")) {
			t.Errorf("a null: %s", b.Data)
		}
		var e wire.Event
		if err := json.Unmarshal(b.Data, &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func TestEveryLogFollowsTheRules(t *testing.T) {
	t.Parallel()
	for name, log := range logs(t) {
		if err := broken(read(t, wire.Codec{}, 0, log)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for from := range log {
			if err := broken(read(t, wire.Codec{Attach: &wire.Attach{}}, uint64(from), log)); err != nil {
				t.Errorf("%s, attached at %d: %v", name, from, err)
			}
		}
	}
}

// broken returns the first rule of the published client that the events break.
func broken(events []wire.Event) error {
	open := map[string]bool{}
	for i, e := range events {
		id := e.MessageID + e.ToolCallID
		kind, stage := cut(e.Type)
		if kind == "SUBAGENT" {
			id = e.SubagentRunID
		}
		key := kind + " " + id
		switch {
		case (i == 0) != (e.Type == wire.RunStarted):
			return fmt.Errorf("event %d is %s", i, e.Type)
		case (i == len(events)-1) != (e.Type == wire.RunFinished || e.Type == wire.RunError):
			return fmt.Errorf("event %d of %d is %s", i, len(events), e.Type)
		case kind == "RUN":
		case stage == "START" && open[key]:
			return fmt.Errorf("event %d starts %s again", i, key)
		case stage == "START":
			open[key] = true
		case (stage == "CONTENT" || stage == "END") && !open[key]:
			return fmt.Errorf("event %d, %s, is of %s, which is not open", i, e.Type, key)
		case stage == "END":
			delete(open, key)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%v are open at the end", open)
	}
	return nil
}

// cut returns what an event is of, and START, CONTENT or END; "" for others.
func cut(kind string) (of, stage string) {
	for suffix, stage := range map[string]string{
		"_STARTED": "START", "_START": "START", "_CONTENT": "CONTENT", "_ARGS": "CONTENT", "_END": "END", "_FINISHED": "END", "_ERROR": "END",
	} {
		if of, ok := strings.CutSuffix(kind, suffix); ok {
			return of, stage
		}
	}
	return kind, ""
}

// TestAttachAnywhere compares the snapshot of each position with the messages of a client that read everything before it.
func TestAttachAnywhere(t *testing.T) {
	t.Parallel()
	log := oneRun(t)
	earlier := []wire.Message{{ID: "before", Role: "user"}}
	for from := range log {
		got := read(t, wire.Codec{Attach: &wire.Attach{Messages: earlier}}, uint64(from), log)
		if got[1].Type != wire.MessagesSnapshot {
			t.Fatalf("from %d: got %s, want a snapshot", from, got[1].Type)
		}
		var replay wire.Replay
		for _, f := range log[:from] {
			events, err := f.Events()
			if err != nil {
				t.Fatal(err)
			}
			replay.Add(events[0])
		}
		want := append(slices.Clone(earlier), replay.Messages(1000)...)
		if a, b := text(t, got[1].Messages), text(t, want); a != b {
			t.Errorf("from %d: got\n%s\nwant\n%s", from, a, b)
		}
		whole := read(t, wire.Codec{}, uint64(from), log)
		if from > 20 && len(got) < len(whole) { // the inputs before are shown to a client that attaches alone
			t.Errorf("from %d: got %d events, want those after the position, which are %d", from, len(got), len(whole))
		}
	}
}

// TestAttachToStartingRun attaches at the events that a runner writes first.
func TestAttachToStartingRun(t *testing.T) {
	t.Parallel()
	var log []event.Frame
	for n, body := range []event.Body{
		event.Claim{Epoch: 1, Runner: "r"},
		event.Input{
			ThreadID: "thr_1", Messages: []event.InputMessage{{ID: "m1", Role: event.RoleUser, Content: event.UserText("hi").Content}},
			Metadata: []byte(`{"agui":{"runId":"run-1"}}`),
		},
		event.Metadata{ThreadID: "thr_1"},
		event.Done{ThreadID: "thr_1", FinishReason: event.FinishStop},
	} {
		line, err := event.Encode(event.Event{ID: event.NewCursor("k", uint64(n)), RequestID: "req_1", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, event.Frame{Incarnation: "k", First: uint64(n), Names: []event.Name{body.Name()}, Lines: append(line, '\n')})
	}
	for from := range log {
		got := read(t, wire.Codec{Attach: &wire.Attach{}}, uint64(from), log)
		if got[0].ThreadID != "thr_1" || got[0].RunID != "run-1" || got[1].Type != wire.MessagesSnapshot {
			t.Errorf("from %d: got %+v", from, got[:2])
		}
		users := len(got[1].Messages)
		for _, e := range got {
			if e.Type == wire.TextStart && e.MessageID == "m1" && e.Role == "user" {
				users++
			}
		}
		if users != 1 {
			t.Errorf("from %d: the client gets the message of the user %d times", from, users)
		}
		if err := broken(got); err != nil {
			t.Errorf("from %d: %v", from, err)
		}
	}
}

func text(t *testing.T, messages []wire.Message) string {
	t.Helper()
	out, err := json.Marshal(messages, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestReplayKeepsNewestEvents(t *testing.T) {
	t.Parallel()
	var replay wire.Replay
	for _, f := range oneRun(t) {
		events, err := f.Events()
		if err != nil {
			t.Fatal(err)
		}
		replay.Add(events[0])
	}
	all := replay.Messages(1000)
	if got := replay.Messages(2); text(t, got) != text(t, all[len(all)-2:]) {
		t.Errorf("got %s", text(t, got))
	}
}
