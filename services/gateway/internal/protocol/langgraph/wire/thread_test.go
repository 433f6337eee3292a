package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
)

func TestPositions(t *testing.T) {
	t.Parallel()
	for _, seq := range []uint64{1, 127, 128, 1 << 33, 5<<33 | 17<<7 | 3} {
		at := wire.PositionOf(seq)
		if got := uint64(at.Index)<<33 | at.N<<7; got != seq>>7<<7 {
			t.Errorf("%d: got %+v", seq, at)
		}
	}
}

func FuzzDecodeFilter(f *testing.F) {
	f.Add(`{"channels":["values","custom:a"],"namespaces":[[],["a"]],"depth":1,"since":8589934720}`)
	f.Add(`{"channels":[]}`)
	f.Fuzz(func(t *testing.T, body string) {
		filter, err := wire.DecodeFilter([]byte(body))
		if err == nil && (len(filter.Channels) == 0 || filter.Since >= 1<<53) {
			t.Errorf("got %+v of %q", filter, body)
		}
	})
}

func FuzzDecodeCommand(f *testing.F) {
	f.Add(`{"id":1,"method":"run.start","params":{"assistant_id":"demo","input":{"messages":[{"role":"user","content":"hi"}]},"config":{"configurable":{"checkpoint_id":"x"}}}}`)
	f.Add(`{"id":2,"method":"input.respond","params":{"namespace":[],"interrupt_id":"i","response":{"a":1}}}`)
	f.Add(`{"id":3,"method":"input.respond","params":{"responses":[{"interrupt_id":"i"},{"interrupt_id":"j","response":null}]}}`)
	f.Add(`{"id":4,"method":"input.inject","params":{"message":{"role":"user","content":"x"}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, err := wire.DecodeCommand([]byte(body))
		if err != nil {
			return
		}
		if in, err := wire.DecodeStart(c.Params); err == nil && in.MayAnswer() {
			if resumed := in.Answer().Resumes(); !json.Valid(resumed) {
				t.Errorf("got the answer %q of %q", resumed, body)
			}
		}
		if in, ids, err := wire.DecodeRespond(c.Params, "demo"); err == nil && (len(ids) == 0 || !json.Valid(in.Resumes())) {
			t.Errorf("got the answers %q to %q of %q", in.Resumes(), ids, body)
		}
		if i, err := wire.DecodeInject(c.Params); err == nil && i.Message.Content == "" {
			t.Errorf("got no message of %q", body)
		}
	})
}

// everyChannel is a dialect of the thread protocol.
func everyChannel() codec.Codec {
	return wire.ThreadCodec{Filter: &wire.Filter{Channels: []string{"values", "updates", "messages", "tools", "lifecycle", "input", "custom"}}}
}
