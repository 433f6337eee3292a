package eventline

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/agentbus/agentbus/pkg/tool"
)

func TestLinesOfOutputThatAreEvents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxEventLine)
	tests := []struct {
		name, output, text string
		events             []string // type and data
	}{
		{"text alone", "a\n::even\nb", "a\n::even\nb", nil},
		{"an event between lines", "a\n::event {\"type\":\"step\",\"data\":{\"n\":1}}\nb\n", "a\nb\n", []string{`step {"n":1}`}},
		{"an event at the end, without a line break", `::event {"type":"step"}`, "", []string{"step {}"}},
		{"an environment_input", `::event {"type":"environment_input","data":{"content":"x"}}`, "", []string{`environment_input {"content":"x"}`}},
		{"the prefix within a line", "a ::event {}\n", "a ::event {}\n", nil},
		{"what is not JSON", "::event now\n", "::event now\n[not an event: the line must be ::event {\"type\":…,\"data\":{…}}]\n", nil},
		{"the name of an event of the protocol", "::event {\"type\":\"done\"}\n", "::event {\"type\":\"done\"}\n" +
			"[not an event: custom event \"done\": an event of the protocol has this name; choose another]\n", nil},
		{"a line that is too long", "::event " + long + "\n::event {\"type\":\"a\"}\n", "::event " + long + "\n", []string{"a {}"}},
	}
	for _, test := range tests {
		for size, read := range map[string]bool{"at once": false, "byte by byte": true} {
			var out bytes.Buffer
			w := &Writer{Next: &out}
			if read {
				source := iotest.OneByteReader(strings.NewReader(test.output))
				piece := make([]byte, 1)
				for n, err := source.Read(piece); err == nil; n, err = source.Read(piece) {
					_, _ = w.Write(piece[:n])
				}
			} else {
				_, _ = w.Write([]byte(test.output))
			}
			_ = w.Flush()
			var events []string
			for _, e := range w.Events {
				events = append(events, e.Type+" "+string(e.Data))
			}
			if out.String() != test.text || strings.Join(events, "|") != strings.Join(test.events, "|") {
				t.Errorf("%s, %s: got %.200q and %q, want %.200q and %q", test.name, size, out.String(), events, test.text, test.events)
			}
		}
	}
}

func TestEventsOfACallHaveALimit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := &Writer{Next: &out}
	line := `::event {"type":"a","data":{"x":"` + strings.Repeat("x", 60<<10) + "\"}}\n"
	for range 5 {
		_, _ = w.Write([]byte(line))
	}
	if w.bytes > tool.MaxEventBytes || len(w.Events) != 2 || !strings.Contains(out.String(), "at most 131072 bytes") {
		t.Errorf("got %d events of %d bytes, want 2 and a reason in the output", len(w.Events), w.bytes)
	}
}

// FuzzWriter checks that the pieces in which output arrives do not matter.
func FuzzWriter(f *testing.F) {
	f.Add("a\n::event {\"type\":\"a\"}\nb", 3)
	f.Add("::event x\n::eve", 1)
	f.Fuzz(func(t *testing.T, output string, size int) {
		read := func(size int) (string, int) {
			var out bytes.Buffer
			w := &Writer{Next: &out}
			for rest := []byte(output); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = w.Write(rest[:n])
				rest = rest[n:]
			}
			_ = w.Flush()
			return out.String(), len(w.Events)
		}
		whole, events := read(len(output) + 1)
		pieces, same := read(max(size, 1))
		if whole != pieces || events != same {
			t.Errorf("got %q and %d events whole, %q and %d in pieces", whole, events, pieces, same)
		}
	})
}
