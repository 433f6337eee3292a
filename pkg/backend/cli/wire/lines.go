package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxLine is the longest line of an output; a tool result with its images is one line.
	MaxLine = 16 << 20
	// maxForeign limits how many lines in another format are reported, and maxNote the length of each.
	maxForeign = 10
	maxNote    = 300
)

// format reads the lines of one run.
type format interface {
	// read takes one line, a JSON object.
	read(line json.RawMessage, out *output) error
	// end takes the end of the output.
	end(out *output)
}

// output is what the lines have given.
type output struct {
	chunks   []backend.Chunk
	requests []Request
	report   Report
}

func (o *output) emit(chunks ...backend.Chunk) { o.chunks = append(o.chunks, chunks...) }

// lines cuts output into lines, each of which is a JSON object.
type lines struct {
	format  format
	out     output
	partial []byte
	foreign int
	err     error
}

func newLines(f format) *lines { return &lines{format: f} }

// Write implements [Decoder].
func (l *lines) Write(p []byte) ([]backend.Chunk, error) {
	for l.err == nil {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		if len(l.partial)+len(line) > MaxLine {
			l.err = fmt.Errorf("a line of the output is longer than %d bytes", MaxLine)
			break
		}
		l.partial = append(l.partial, line...)
		if !whole {
			break
		}
		l.err = l.line(l.partial)
		l.partial = l.partial[:0]
		p = rest
	}
	return l.take(), l.err
}

// Close implements [Decoder].
func (l *lines) Close() ([]backend.Chunk, error) {
	if l.err == nil {
		l.err = l.line(l.partial)
		l.partial = nil
		l.format.end(&l.out)
	}
	return l.take(), l.err
}

// Requests implements [Decoder].
func (l *lines) Requests() []Request {
	requests := l.out.requests
	l.out.requests = nil
	return requests
}

// Report implements [Decoder].
func (l *lines) Report() Report { return l.out.report }

func (l *lines) take() []backend.Chunk {
	chunks := l.out.chunks
	l.out.chunks = nil
	return chunks
}

func (l *lines) line(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	value := json.RawMessage(line)
	if jsontext.Value(value).Kind() == '{' && jsontext.Value(value).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) {
		return l.format.read(value, &l.out)
	}
	// Programs print messages between the lines of their format.
	if l.foreign++; l.foreign <= maxForeign {
		l.out.emit(backend.Warning("the agent printed: " + note(string(line))))
	}
	return nil
}

// decode reads the known members of a line. Members of an unexpected type keep their zero value, so that a new format
// of one line does not fail the run.
func decode(line json.RawMessage, into any) {
	_ = jsonv2.Unmarshal(line, into, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) // see above
}

// object is v if it is a JSON object, whatever else the format would allow.
func object(v json.RawMessage) json.RawMessage {
	if jsontext.Value(v).Kind() != '{' {
		return nil
	}
	return slices.Clone(v)
}

// note is the first line of text, at most so long that one reads it.
func note(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote], "") + " […]"
}

var missing = regexp.MustCompile(`(?i)\b(session|conversation|thread|rollout)\b.*\b(not found|does not exist|unknown|missing)\b|` +
	`\b(no|unknown|could not find|not find|missing)\b.*\b(session|conversation|thread|rollout)\b`)

// SaysMissing reports whether an agent's message means that the session does not exist.
func SaysMissing(text string) bool { return missing.MatchString(text) }

// status is how a tool ended that did, or did not, go wrong.
func status(failed bool) event.ToolStatus {
	if failed {
		return event.ToolFailed
	}
	return event.ToolSuccess
}
