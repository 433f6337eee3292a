package event_test

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestLinesSurvivePacking(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 100<<10)
	_, _ = rand.Read(noise)
	line := `{"id":"k3f9-1","type":"text","delta":"hello"}` + "\n"
	tests := []struct {
		name    string
		lines   string
		smaller bool
	}{
		{"none", "", false},
		{"a short one", line, false},
		{"many", strings.Repeat(line, 1000), true},
		{"one long one", `{"delta":"` + strings.Repeat("x", 900<<10) + `"}` + "\n", true},
		{"what cannot be compressed", "{" + string(noise), false},
	}
	for _, test := range tests {
		packed := event.PackLines(nil, []byte(test.lines))
		if smaller := len(packed) < len(test.lines); smaller != test.smaller {
			t.Errorf("%s: %d bytes became %d", test.name, len(test.lines), len(packed))
		}
		lines, err := event.UnpackLines(packed)
		if err != nil || string(lines) != test.lines {
			t.Errorf("%s: came back as %d bytes, %v", test.name, len(lines), err)
		}
	}
}

func TestLinesThatCannotBeUnpacked(t *testing.T) {
	t.Parallel()
	good := event.PackLines(nil, bytes.Repeat([]byte("{}\n"), 1000))
	tests := map[string][]byte{
		"cut short":          good[:len(good)/2],
		"only a length":      {0x80, 0x08},
		"a length for ever":  bytes.Repeat([]byte{0xff}, 20),
		"claims a gigabyte":  {0x80, 0x80, 0x80, 0x80, 0x04, 0x00},
		"followed by others": append(bytes.Clone(good), 0xff, 0xff, 0xff),
	}
	for name, packed := range tests {
		if lines, err := event.UnpackLines(packed); err == nil {
			t.Errorf("%s: became %d bytes", name, len(lines))
		}
	}
}

func FuzzUnpackLines(f *testing.F) {
	f.Add([]byte(`{"a":1}` + "\n"))
	f.Add(event.PackLines(nil, bytes.Repeat([]byte("{}\n"), 1000)))
	f.Fuzz(func(t *testing.T, packed []byte) {
		lines, err := event.UnpackLines(packed)
		if err != nil {
			return
		}
		again, err := event.UnpackLines(event.PackLines(nil, lines))
		if err != nil || len(lines) > 0 && lines[0] < 0x80 && !bytes.Equal(again, lines) {
			t.Fatalf("%d bytes came back as %d, %v", len(lines), len(again), err)
		}
	})
}
