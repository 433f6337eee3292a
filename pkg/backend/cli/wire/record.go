package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// Fields names the members of a line that [Records] reads; each is a path such as "message.text", of which the first one
// counts that a line has.
type Fields struct {
	Text    []string // default: text, delta, content
	Session []string // default: session_id, sessionId, conversation_id
	Error   []string // default: error.message, error
}

// Records decodes one JSON object a line. Fields names the members with a text, the session's id and an error.
func Records(f Fields) Decoder {
	return newLines(&records{Fields{
		Text:    or(f.Text, "text", "delta", "content"),
		Session: or(f.Session, "session_id", "sessionId", "conversation_id"),
		Error:   or(f.Error, "error.message", "error"),
	}})
}

func or(paths []string, defaults ...string) []string {
	if len(paths) > 0 {
		return paths
	}
	return defaults
}

type records struct{ fields Fields }

func (r *records) read(line json.RawMessage, out *output) error {
	out.report.SessionID = cmp.Or(first(line, r.fields.Session), out.report.SessionID)
	if text := first(line, r.fields.Text); text != "" {
		out.emit(backend.TextDelta(text))
	}
	if failure := first(line, r.fields.Error); failure != "" {
		out.report.Failure = note(failure)
		out.report.Missing = SaysMissing(failure)
	}
	return nil
}

func (r *records) end(out *output) { out.report.Finish = event.FinishStop }

// first is the text at the first of paths that has one.
func first(line json.RawMessage, paths []string) string {
	for _, path := range paths {
		if text := at(line, path); text != "" {
			return text
		}
	}
	return ""
}

func at(v json.RawMessage, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if jsontext.Value(v).Kind() != '{' {
			return ""
		}
		decode(v, &object)
		v = object[name]
	}
	var text string
	if jsontext.Value(v).Kind() == '"' {
		decode(v, &text)
	}
	return text
}
