package program

import (
	"regexp"
	"strings"
)

const (
	// maxTail bounds what is kept of a standard error.
	maxTail = 8 << 10
	// maxSaid limits the part of it that an error message quotes.
	maxSaid = 300
)

// Tail keeps the end of what is written. The zero value is empty.
type Tail struct{ kept []byte }

// Write implements [io.Writer].
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, len(p)-maxTail):]
	t.kept = append(t.kept[max(0, min(len(t.kept), len(t.kept)+len(p)-maxTail)):], p...)
	return n, nil
}

// String returns what was kept.
func (t *Tail) String() string { return strings.ToValidUTF8(string(t.kept), "\uFFFD") }

// escapes match what colours a terminal.
var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// Reason returns the line of a standard error that says why the program failed: the last that begins with "Error", or the
// last.
func Reason(stderr string) string {
	said := ""
	named := false
	for line := range strings.Lines(escapes.ReplaceAllString(stderr, "")) {
		line = strings.TrimSpace(line)
		names := strings.HasPrefix(strings.ToLower(line), "error")
		if line == "" || named && !names {
			continue
		}
		said, named = line, names
	}
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[:maxSaid], "") + " […]"
	}
	return said
}
