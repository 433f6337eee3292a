package sqlstore

import (
	"bytes"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// lineHead is the data that the store needs of an event, other than its name.
type lineHead struct {
	at    time.Time // zero = unknown
	delta bool
}

// readHeadAt is look for an event in its frame. The delta of a plan is the whole current plan: no later event repeats it,
// so it does not count as a delta.
func readHeadAt(line event.Line) lineHead {
	g := readHead(line.JSON)
	g.delta = g.delta && line.Name != event.NamePlan
	return g
}

// readHead extracts the data that the store needs of an event. It never fails: unreadable data is left out. It runs once
// for each stored event, so JSON without white space is not decoded (BenchmarkLook).
func readHead(line []byte) lineHead {
	if g, ok := skipValue(line); ok {
		return g
	}
	var e struct {
		Timestamp time.Time   `json:"timestamp"`
		Stage     event.Stage `json:"stage"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return lineHead{}
	}
	return lineHead{at: e.Timestamp, delta: e.Stage == event.StageDelta}
}

// skipValue goes from member to member until it has seen both of those that it looks for. It declines what is not plain: the
// decoder decides then. JSON that is broken further on it does not notice.
func skipValue(line []byte) (g lineHead, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return g, false
	}
	for rest := line[1:]; ; rest = rest[1:] {
		size, ok := width(rest)
		if !ok || size == len(rest) || rest[size] != ':' {
			return g, false
		}
		name, value := rest[:size], rest[size+1:]
		if size, ok = width(value); !ok || bytes.IndexByte(name, '\\') >= 0 {
			return g, false
		}
		value, rest = value[:size], value[size:]
		switch string(name) {
		case `"timestamp"`:
			if g.at.UnmarshalJSON(value) != nil {
				return g, false
			}
		case `"stage"`:
			if bytes.IndexByte(value, '\\') >= 0 || value[0] != '"' {
				return g, false
			}
			g.delta = string(value[1:len(value)-1]) == string(event.StageDelta)
			return g, !g.at.IsZero()
		}
		if len(rest) == 0 || rest[0] != ',' {
			return g, string(rest) == "}" && !g.at.IsZero()
		}
	}
}

// width returns the length of the JSON value that text begins with, if it has no white space.
func width(text []byte) (size int, ok bool) {
	depth := 0
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			length := quoted(text[i:])
			if length == 0 {
				return 0, false
			}
			i += length
			if depth == 0 {
				return i, true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i, i > 0
			}
			if depth--; depth == 0 {
				return i + 1, true
			}
		case ',', ':':
			if depth == 0 {
				return i, i > 0
			}
		case ' ', '\t', '\r', '\n':
			return 0, false
		}
		i++
	}
	return 0, false
}

// quoted returns the length of the JSON string that text begins with, quotes included; 0 when it does not end.
func quoted(text []byte) int {
	for i := 1; i < len(text); {
		end := bytes.IndexByte(text[i:], '"')
		if end < 0 {
			return 0
		}
		i += end + 1
		backslashes := 0
		for text[i-2-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i
		}
	}
	return 0
}
