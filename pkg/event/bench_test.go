package event_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// delta is what most events are: a few words of an answer.
func delta() event.Event {
	index := 7
	return event.Event{
		ID: event.NewCursor("k3v9x2ma", 42), RequestID: "req_0cq6h8f2v1e7r9t3k5m7p9s1u2", Time: at,
		Body: event.Text{
			Block: event.Block{MessageID: "msg_0cq6h8f2v1e7r9t3k5m7p9s1u3", BlockID: "b1", Stage: event.StageDelta, DeltaIndex: &index},
			Delta: " It is 42 <b>, as \"everybody\" knows.\n",
		},
	}
}

var at = time.Date(2026, time.March, 14, 9, 26, 53, 589_793_238, time.UTC)

func BenchmarkEncodeDelta(b *testing.B) {
	e := delta()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := event.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeDelta(b *testing.B) {
	line, err := event.Encode(delta())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := event.Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}

// call is the end of a call of a tool, which the encoder writes by reflection.
func call() event.Event {
	e := delta()
	e.Body = event.ToolCall{
		Block: event.Block{BlockID: "b2", Stage: event.StageStop}, ToolCallID: "call_1", Tool: "search",
		Args: json.RawMessage(`{"query":"the answer","limit":10,"fields":["title","text"]}`),
	}
	return e
}

func BenchmarkEncodeCall(b *testing.B) {
	e := call()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := event.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeCall(b *testing.B) {
	line, err := event.Encode(call())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := event.Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
