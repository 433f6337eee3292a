package taskevents_test

import (
	"encoding/json"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/taskevents"
)

func delta(text string) event.Body {
	return event.Text{Block: event.Block{Stage: event.StageDelta}, Delta: text}
}

func whole(text string) event.Body {
	return event.Text{Block: event.Block{Stage: event.StageStop}, Text: text}
}

func discarded() event.Body {
	return event.Text{Block: event.Block{Stage: event.StageStop, Discarded: true}}
}

func TestRepeatedTextIsSentOnce(t *testing.T) {
	t.Parallel()
	call := event.ToolCall{Block: event.Block{Stage: event.StageStop}, ToolCallID: "call_1", Tool: "echo", Args: json.RawMessage("{}")}
	tests := []struct {
		name  string
		log   []event.Body // of the process that was killed: it has no deltas
		shown string
		next  []event.Body
		want  string // what the next process sends
	}{
		{"the same, in the same pieces", nil, "one two ", []event.Body{discarded(), delta("one "), delta("two "), delta("three"), whole("one two three")}, "three"},
		{"the same, in other pieces", nil, "one two ", []event.Body{discarded(), delta("o"), delta("ne two th"), delta("ree"), whole("one two three")}, "three"},
		{"something else", nil, "one two ", []event.Body{discarded(), delta("one "), delta("or none"), whole("one or none")}, "one or none"},
		{"the beginning alone", nil, "one two ", []event.Body{discarded(), delta("one"), whole("one")}, "one"},
		{"behind a finished block", []event.Body{whole("one ")}, "one two ", []event.Body{discarded(), delta("two three"), whole("two three")}, "three"},
		{"behind a call", []event.Body{whole("one "), call}, "two ", []event.Body{discarded(), delta("two three"), whole("two three")}, "three"},
		{"a call instead", nil, "one ", []event.Body{discarded(), call, delta("one "), whole("one ")}, "one "},
		{"a block that was never shown", []event.Body{whole("one ")}, "", []event.Body{delta("two"), whole("two")}, "two"},
		{"nothing was shown", nil, "", []event.Body{delta("one "), whole("one "), delta("one "), whole("one ")}, "one one "},
	}
	for _, tt := range tests {
		converter := taskevents.New(remoteagent.Task{}, "/")
		for _, body := range tt.log {
			converter.Convert(event.Event{Body: body})
		}
		converter.Resume(tt.shown)
		got := ""
		for _, body := range tt.next {
			for _, sent := range converter.Convert(event.Event{Body: body}) {
				if d, ok := sent.(remoteagent.TextDelta); ok {
					got += d.Text
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
