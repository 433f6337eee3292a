package loop

import (
	"strings"
	"testing"
)

func TestSummariesAreSingleCleanLines(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"is a line", "a\n\tb\r\nc\u2028d", "a b c d"},
		{"obeys no escape", "\x1b[2Jgone\x1b]0;title\x07", "[2Jgone]0;title"},
		{"reads in one direction", "safe\u202egnp.exe\u2066\u200f", "safegnp.exe"},
		{"hides nothing", "pay\u200bpal\ufeff\x00\u00ad", "paypal"},
		{"keeps other scripts", "é 漢字 🙂 שלום", "é 漢字 🙂 שלום"},
		{"is text", "a\xffb", "a\ufffdb"},
		{"is short", strings.Repeat("x", 300), strings.Repeat("x", maxSummary-1) + "…"},
	}
	for _, test := range tests {
		if got := summary(test.text); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
