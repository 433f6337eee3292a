package eventlog

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/nats-io/nats.go"
)

// FuzzFrame says: no message makes a reader panic or run on, whatever its headers claim, and a frame keeps its place when
// it is written again.
func FuzzFrame(f *testing.F) {
	f.Add("k3f9-1-0", "claim,text*2,done", []byte("{}\n{}\n{}\n{}\n"), uint64(2))
	f.Add("k3f9-1-18446744073709551615", "text*65536", []byte("{}\n"), uint64(math.MaxUint64))
	f.Add("--", "", []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), uint64(0))
	f.Add("a-1-+1", "text*-1", []byte{}, uint64(1))
	f.Fuzz(func(t *testing.T, head, events string, body []byte, n uint64) {
		message := nats.Header{}
		message.Set(HeaderFrame, head)
		message.Set(HeaderEvents, events)
		frame, err := ParseFrame(message, body, 7, time.Unix(0, 0))
		if err != nil {
			return
		}
		lines := 0
		for line := range frame.Each() {
			if line.N != frame.First+uint64(lines) {
				t.Fatalf("line %d is event %d of a frame that begins at %d", lines, line.N, frame.First)
			}
			lines++
		}
		if lines > len(frame.Names) || len(frame.Names) == 0 {
			t.Fatalf("%d lines with %d names", lines, len(frame.Names))
		}
		if rest := frame.From(n); len(rest.Names) > len(frame.Names) || len(rest.Lines) > len(frame.Lines) {
			t.Fatalf("what is left from %d on is more than there was", n)
		}
		if start := frame.Before(n); len(start.Names) > len(frame.Names) || len(start.Lines) > len(frame.Lines) {
			t.Fatalf("what comes before %d is more than there was", n)
		}
		again := nats.Header{}
		setFrameHeaders(again, frame)
		twin, err := ParseFrame(again, event.PackLines(nil, frame.Lines), 7, time.Unix(0, 0))
		if err != nil || twin.First != frame.First || twin.Epoch != frame.Epoch || len(twin.Names) != len(frame.Names) ||
			string(twin.Lines) != string(frame.Lines) {
			t.Fatalf("%q %q: came back as %+v, %v", head, events, twin, err)
		}
	})
}

func TestFramesHaveTheirEncodingInAHeader(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte(`{"event":"text","id":"k3f9-1","delta":"hello"}`+"\n"), 100)
	tests := []struct {
		name     string
		encoding string
		body     []byte
		refused  bool
	}{
		{"JSON lines have none", "", long, false},
		{"compressed lines name it", "snappy", snappy.Encode(nil, long), false},
		{"compressed lines of an earlier version have none", "", s2.Encode(nil, long), false},
		{"another encoding is refused", "zstd", long, true},
		{"compressed lines that are cut short are refused", "snappy", snappy.Encode(nil, long)[:100], true},
	}
	for _, tt := range tests {
		h := nats.Header{}
		setFrameHeaders(h, event.Frame{Incarnation: "k3f9", Epoch: 1, Names: slices.Repeat([]event.Name{event.NameText}, 100)})
		if tt.encoding != "" {
			h.Set("Content-Encoding", tt.encoding)
		}
		frame, err := ParseFrame(h, tt.body, 1, time.Unix(0, 0))
		if refused := err != nil; refused != tt.refused {
			t.Errorf("%s: got %v, want it refused: %t", tt.name, err, tt.refused)
		}
		if err == nil && !bytes.Equal(frame.Lines, long) {
			t.Errorf("%s: got %d bytes, want %d", tt.name, len(frame.Lines), len(long))
		}
	}
}
