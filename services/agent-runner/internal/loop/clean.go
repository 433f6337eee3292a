package loop

import "strings"

// maxSummary is the longest summary, in characters.
const maxSummary = 200

// clean makes text fit for JSON.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// summary is the start of text in one line.
func summary(text string) string {
	line := []rune(strings.Join(strings.Fields(clean(text)), " "))
	if len(line) > maxSummary {
		line = append(line[:maxSummary-1], '…')
	}
	return string(line)
}
