package loop

import (
	"strings"
	"unicode"
)

// maxSummary is the longest summary, in characters.
const maxSummary = 200

// clean makes text fit for JSON.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// summary is the start of text in one line. Nothing in it moves a cursor, changes the direction of reading or hides: who
// reads it did not write it.
func summary(text string) string {
	line := []rune(strings.Join(strings.Fields(strings.Map(visible, clean(text))), " "))
	if len(line) > maxSummary {
		line = append(line[:maxSummary-1], '…')
	}
	return string(line)
}

func visible(r rune) rune {
	if unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.IsSpace(r) {
		return -1
	}
	return r
}
