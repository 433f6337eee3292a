package event_test

import (
	"math"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestParseCursor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		cursor, incarnation string
		n                   uint64
	}{
		{"k3v9x2ma-0", "k3v9x2ma", 0},
		{"k3v9x2ma-42", "k3v9x2ma", 42},
		{"0-0", "0", 0},
		{"0123456789abcdef-9223372036854775807", "0123456789abcdef", math.MaxInt64},
	}
	for _, tt := range tests {
		incarnation, n, err := event.ParseCursor(tt.cursor)
		if err != nil || incarnation != tt.incarnation || n != tt.n {
			t.Errorf("%s: got %q, %d, %v", tt.cursor, incarnation, n, err)
		}
		if again := event.NewCursor(incarnation, n); string(again) != tt.cursor {
			t.Errorf("%s becomes %s", tt.cursor, again)
		}
	}
}

// badCursors is what arrives in Last-Event-ID.
func badCursors() map[string]string {
	return map[string]string{
		"nothing":                         "",
		"a number":                        "0",
		"a negative number":               "-1",
		"a number with an exponent":       "1e9",
		"the largest number":              "18446744073709551615",
		"one more than that":              "18446744073709551616",
		"no incarnation":                  "-5",
		"no number":                       "k3v9-",
		"a dash alone":                    "-",
		"a negative number of an event":   "k3v9--1",
		"a plus":                          "k3v9-+1",
		"a leading zero":                  "k3v9-01",
		"two zeros":                       "k3v9-00",
		"an exponent":                     "k3v9-1e3",
		"a hexadecimal number":            "k3v9-0x1",
		"an underscore in a number":       "k3v9-1_000",
		"a fraction":                      "k3v9-1.5",
		"a number over 63 bits":           "k3v9-9223372036854775808",
		"a number over 64 bits":           "k3v9-18446744073709551616",
		"10,000 digits":                   "k3v9-" + strings.Repeat("9", 10_000),
		"an upper-case incarnation":       "K3V9-1",
		"an incarnation of 17 characters": "0123456789abcdefg-1",
		"a megabyte":                      strings.Repeat("a", 1<<20) + "-1",
		"three parts":                     "k3v9-1-2",
		"a space before":                  " k3v9-1",
		"a space after":                   "k3v9-1 ",
		"a line break":                    "k3v9-1\nevent: done",
		"a return":                        "k3v9-1\r",
		"NUL":                             "k3v9-1\x00",
		"a wildcard":                      "*-1",
		"a token more":                    "k3.v9-1",
		"a path":                          "../x-1",
		"another script's digit":          "k3v9-١",
		"another dash":                    "k3v9–1",
		"an emoji":                        "🙂-1",
		"invalid UTF-8":                   "k\xff-1",
		"a request's id":                  "req_0cq6h8f2v1e7r9t3k5m7p9s1u2",
		"two cursors":                     "k3v9-1, k3v9-2",
		"JSON":                            `{"$ne":1}`,
	}
}

func TestParseCursorRefuses(t *testing.T) {
	t.Parallel()
	for name, cursor := range badCursors() {
		incarnation, n, err := event.ParseCursor(cursor)
		if err == nil {
			t.Errorf("%s: %.40q is %q and %d", name, cursor, incarnation, n)
			continue
		}
		if len(err.Error()) > 250 {
			t.Errorf("%s: the error repeats too much of the cursor: %d bytes", name, len(err.Error()))
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, cursor := range badCursors() {
		if len(cursor) < 100 {
			f.Add(cursor)
		}
	}
	f.Add("k3v9x2ma-42")
	f.Fuzz(func(t *testing.T, s string) {
		incarnation, n, err := event.ParseCursor(s)
		if err != nil {
			return
		}
		if again := event.NewCursor(incarnation, n); string(again) != s {
			t.Errorf("%q is read as %q", s, again)
		}
	})
}
