// Package output makes what a tool says fit to be passed on: harmless on a screen, bounded in size, and not more often
// than readers can follow.
package output

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSummary is the length of a summary in runes.
const MaxSummary = 200

// escapes are the control sequences of terminals (ECMA-48): CSI, then OSC and its like up to their end, then the rest.
var escapes = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})?` +
	`|\x1b[ -/]*[0-~]?`)

// Summary makes one line of at most MaxSummary runes of text. Nothing in it moves a cursor, changes the direction of
// reading or hides: terminal sequences, control characters and the invisible characters of Unicode are gone.
func Summary(text string) string {
	const enough = 16 * MaxSummary // bytes: what comes after could not show
	if len(text) > enough {
		text = text[:enough]
	}
	words := strings.Join(strings.Fields(Printable(text)), " ")
	runes := []rune(words)
	if len(runes) <= MaxSummary {
		return words
	}
	return string(runes[:MaxSummary-1]) + "…"
}

// Printable returns text with lines and tabs, and without anything else that does not print.
func Printable(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = escapes.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(printable, text)
}

func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
		return '\n'
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // Cf: bidi, zero-width, tags
		return -1
	case r == '\u115F' || r == '\u1160' || r == '\u3164' || r == '\uFFA0' || r == '\u034F': // fillers: nothing to see
		return -1
	default:
		return r
	}
}

// Cut makes text valid UTF-8 and shortens it to limit bytes. A note at the end says how much is missing.
func Cut(text string, limit int64) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if int64(len(text)) <= limit {
		return text
	}
	kept := wholeRunes(text[:limit])
	return fmt.Sprintf("%s\n[cut: these are the first %d of %d bytes]", kept, len(kept), len(text))
}

// wholeRunes drops a rune that was cut in two at the end.
func wholeRunes(text string) string {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if !utf8.RuneStart(text[i]) {
			continue
		}
		if utf8.FullRuneInString(text[i:]) {
			return text
		}
		return text[:i]
	}
	return text
}
