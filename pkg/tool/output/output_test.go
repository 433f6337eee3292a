package output_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/tool/output"
)

func TestSummaryIsSingleCleanLine(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"a word", "done", "done"},
		{"lines become one", " one\r\n\ttwo\vthree\u2028four ", "one two three four"},
		{"colours are gone", "\x1b[1;31mred\x1b[0m", "red"},
		{"an eight-bit sequence is gone", "a\u009b2Jb", "ab"},
		{"a window title is gone", "\x1b]0;owned\x07x", "x"},
		{"a hyperlink keeps its text", "\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\", "here"},
		{"a sequence without an end is gone", "a\x1b[31", "a"},
		{"a lone escape is gone", "a\x1b", "a"},
		{"control characters are gone", "a\x00\b\x7fb", "ab"},
		{"directions are not changed", "user\u202Egnp.exe\u2066x\u200F", "usergnp.exex"},
		{"zero-width characters are gone", "a\u200Bb\uFEFFc\u2060d\u00ADe", "abcde"},
		{"tags are gone", "a\U000E0041b", "ab"},
		{"fillers are gone", "a\u3164b", "ab"},
		{"what is not UTF-8 shows", "a\xffb", "a\uFFFDb"},
		{"other scripts stay", "żółć 日本 👍", "żółć 日本 👍"},
		{"markup is kept", "<b>x</b>", "<b>x</b>"},
		{"a long one is cut", strings.Repeat("é", 300), strings.Repeat("é", 199) + "…"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := output.Summary(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		limit      int64
		want       string
	}{
		{"what fits stays", "abc", 3, "abc"},
		{"what is too long is cut", "abcd", 3, "abc\n[cut: these are the first 3 of 4 bytes]"},
		{"a rune is not cut in two", "aé", 2, "a\n[cut: these are the first 1 of 3 bytes]"},
		{"a rune of four bytes is not cut", "👍👍", 7, "👍\n[cut: these are the first 4 of 8 bytes]"},
		{"what is not UTF-8 is replaced", "a\xff", 10, "a\uFFFD"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := output.Cut(test.text, test.limit); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzSummary(f *testing.F) {
	for _, s := range []string{"x", "\x1b[31m", "\x1b]0;t\x07", "\u202E", "\x9b", "a\r\nb", "\x1b\x1b[[mm"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := output.Summary(text)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > output.MaxSummary {
			t.Errorf("Summary(%q) = %q: want at most %d valid runes", text, got, output.MaxSummary)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }); i >= 0 {
			t.Errorf("Summary(%q) = %q: a character at %d does not print", text, got, i)
		}
	})
}

// sends collects what a stream sends, and when.
type sends struct {
	mu    sync.Mutex
	texts []string
	times []time.Time
}

func (s *sends) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
	s.times = append(s.times, time.Now())
}

func TestStreamSendsAtOnceAndThenAtItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got sends
		begun := time.Now()
		s := output.NewStream(got.add)
		for range 1000 { // for one second
			s.Write("x")
			time.Sleep(time.Millisecond)
		}
		s.Close()
		if n := len(got.texts); n < 10 || n > 12 {
			t.Errorf("%d sends in a second, want about 10", n)
		}
		if first := got.times[0].Sub(begun); first >= output.Pace {
			t.Errorf("the first came after %v, want it at once", first)
		}
		if all := strings.Join(got.texts, ""); all != strings.Repeat("x", 1000) {
			t.Errorf("%d bytes were sent, want all 1000", len(all))
		}
	})
}

func TestStreamIsBounded(t *testing.T) {
	t.Parallel()
	var got sends
	s := output.NewStream(got.add)
	for range 100 {
		s.Write(strings.Repeat("é", 1000))
	}
	s.Close()
	s.Write("too late")
	all := strings.Join(got.texts, "")
	if len(all) > output.MaxStream+100 || !strings.HasSuffix(all, "[further output is not shown]\n") || !utf8.ValidString(all) {
		t.Errorf("got %d bytes that end in %.60q", len(all), all[max(0, len(all)-60):])
	}
	if strings.Count(all, "further output") != 1 {
		t.Error("the note must come once")
	}
}

func TestStreamDoesNotSplitRunes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got sends
		s := output.NewStream(got.add)
		for _, b := range []byte("a👍b") {
			s.Write(string([]byte{b}))
			time.Sleep(time.Second)
		}
		s.Write("\xf0\x9f")
		s.Close()
		if all := strings.Join(got.texts, "|"); all != "a|👍|b|\uFFFD" {
			t.Errorf("got %q", all)
		}
	})
}

func TestStreamClosesTwice(t *testing.T) {
	t.Parallel()
	s := output.NewStream(func(string) { t.Error("nothing was written") })
	s.Close()
	s.Close()
}
