package event

import (
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestADeltaIsWrittenAsTheEncoderWouldWriteIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		index := rapid.IntRange(0, 1<<20).Draw(t, "index")
		text := rapid.OneOf(rapid.String(), rapid.Just("\u2028 \u2029 \u201c"), rapid.Just("\x00\n\"\\")).Draw(t, "text")
		block := Block{
			MessageID: rapid.SampledFrom([]string{"", "msg_1"}).Draw(t, "message"), BlockID: "b0",
			Stage: rapid.SampledFrom([]Stage{StageStart, StageDelta, StageStop}).Draw(t, "stage"), DeltaIndex: &index,
		}
		body := rapid.SampledFrom([]Body{
			Text{Block: block, Delta: text}, Thinking{Block: block, Delta: text},
			ToolCall{Block: block, ToolCallID: "call_1", Delta: text}, Text{Block: block, Delta: text, Text: "whole"},
		}).Draw(t, "body")
		got, ok := appendDelta(nil, body)
		if !ok {
			return
		}
		whole, err := json.Marshal(body, wire)
		if err != nil {
			t.Fatal(err)
		}
		if want := "," + string(whole[1:len(whole)-1]); string(got) != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}
