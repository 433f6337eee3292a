package protocol_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

func frameOf(t *testing.T, bodies ...event.Body) event.Frame {
	t.Helper()
	var f event.Frame
	for _, body := range bodies {
		line, err := event.Encode(event.Event{RequestID: "r", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		f.Names = append(f.Names, body.Name())
		f.Lines = append(append(f.Lines, line...), '\n')
	}
	return f
}

func TestOutcomeOfALog(t *testing.T) {
	t.Parallel()
	stop := event.Block{BlockID: "b", Stage: event.StageStop}
	discarded := stop
	discarded.Discarded = true
	frame := frameOf(t,
		event.Claim{Epoch: 1}, event.Input{Metadata: []byte(`{"x":{"runId":"1"}}`)}, event.Metadata{Model: "m"},
		event.Text{Block: event.Block{BlockID: "b", Stage: event.StageDelta}, Delta: "he"},
		event.Text{Block: discarded, Text: "hex"}, event.Text{Block: stop, Text: "hello"},
		event.Input{SteerID: "s"}, event.Continuation{ActionID: "a"}, event.Done{FinishReason: event.FinishActionRequired},
	)
	o, err := protocol.OutcomeOf(1000, frame)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Blocks) != 1 || o.Blocks[0].(event.Text).Text != "hello" || o.Metadata.Model != "m" || len(o.Actions) != 1 {
		t.Errorf("got %+v", o)
	}
	if string(o.Input.Metadata) != `{"x":{"runId":"1"}}` || o.End.(event.Done).FinishReason != event.FinishActionRequired {
		t.Errorf("got %+v", o)
	}
	_, err = protocol.OutcomeOf(1000, frame, frameOf(t, event.Text{Block: stop, Text: strings.Repeat("x", 1000)}))
	if apierr.CodeOf(err) != apierr.MessageTooLarge {
		t.Errorf("got %v, want %s", err, apierr.MessageTooLarge)
	}
}
