package loop

import (
	"strings"
	"unicode"
)

// maxSummary is the longest summary, in characters.
const maxSummary = 200

// clean replaces invalid UTF-8, so that text can be encoded as JSON.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// summary returns the start of text on one line, without control characters, marks of text direction, or invisible
// characters: the text comes from a model and is shown to people.
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
