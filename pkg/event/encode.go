package event

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wire makes the text safe to put in one line anywhere: U+2028 and U+2029 are escaped, because some NDJSON readers
// split lines at them.
var wire = json.JoinOptions(jsontext.EscapeForJS(true), json.Deterministic(true))

// timestamp is RFC 3339 with exactly six digits of a second: times of one length sort as text, and microseconds show
// what the way from the writer to a reader costs.
const timestamp = "2006-01-02T15:04:05.000000Z"

// appendTime appends t as timestamp has it, in a third of the time that it takes to follow a layout.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, timestamp)
	}
	hour, minute, second := t.Clock()
	micros := t.Nanosecond() / 1000
	dst = append(appendPair(appendPair(dst, year/100), year%100), '-')
	dst = append(appendPair(dst, int(month)), '-')
	dst = append(appendPair(dst, day), 'T')
	dst = append(appendPair(dst, hour), ':')
	dst = append(appendPair(dst, minute), ':')
	dst = append(appendPair(dst, second), '.')
	dst = appendPair(appendPair(appendPair(dst, micros/10_000), micros/100%100), micros%100)
	return append(dst, 'Z')
}

// appendPair appends two digits.
func appendPair(dst []byte, n int) []byte {
	return append(dst, byte('0'+n/10), byte('0'+n%10)) //nolint:gosec // n is below 100
}

// Encode returns e as one line of JSON without a line break. It fails only for a body that cannot be JSON, such as
// invalid UTF-8 in a raw value.
func Encode(e Event) ([]byte, error) {
	line, err := Append(make([]byte, 0, lineSize), e)
	if err != nil {
		return nil, err
	}
	return line, nil
}

// lineSize is room for most events.
const lineSize = 320

// Append appends e to dst as [Encode] writes it. After an error dst is as it was.
//
// The envelope and plain deltas are written by hand: Append runs once for each token of each answer
// (BenchmarkEncodeDelta).
func Append(dst []byte, e Event) ([]byte, error) {
	name := e.Body.Name()
	line := appendString(append(dst, `{"event":`...), string(name))
	if e.ID != "" {
		line = appendString(append(line, `,"id":`...), string(e.ID))
	}
	line = appendString(append(line, `,"requestId":`...), e.RequestID)
	line = append(line, `,"timestamp":"`...)
	line = append(appendTime(line, e.Time), '"')
	if whole, ok := appendDelta(line, e.Body); ok {
		return append(whole, '}'), nil
	}
	body, err := json.Marshal(e.Body, wire)
	if err != nil {
		return dst, fmt.Errorf("encode %s event: %w", name, err)
	}
	if len(body) == len("{}") {
		return append(line, '}'), nil
	}
	return append(append(line, ','), body[1:]...), nil
}

// appendDelta appends the members of a delta, each with a comma before it. It declines whatever is not plain: then the
// encoder decides.
func appendDelta(dst []byte, body Body) ([]byte, bool) {
	var b Block
	var call, delta string
	switch body := body.(type) {
	case Text:
		if body.Text != "" || !body.Extra.IsEmpty() {
			return dst, false
		}
		b, delta = body.Block, body.Delta
	case Thinking:
		if body.Thinking != "" || body.Signature != "" || !body.Extra.IsEmpty() {
			return dst, false
		}
		b, delta = body.Block, body.Delta
	case ToolCall:
		if body.ToolCallID == "" || body.Tool != "" || body.Args != nil || body.Gate != "" ||
			body.Description != "" || body.Schema != nil || !body.Extra.IsEmpty() {
			return dst, false
		}
		b, call, delta = body.Block, body.ToolCallID, body.Delta
	default:
		return dst, false
	}
	if b.Stage != StageDelta || b.DeltaIndex == nil || b.BlockIndex != nil || b.Discarded || b.Reason != "" || delta == "" {
		return dst, false
	}
	dst = appendMember(dst, `,"messageId":`, b.MessageID)
	dst = appendString(append(dst, `,"blockId":`...), b.BlockID)
	dst = append(dst, `,"stage":"delta","deltaIndex":`...)
	dst = strconv.AppendInt(dst, int64(*b.DeltaIndex), 10)
	dst = appendMember(dst, `,"toolCallId":`, call)
	return appendMember(dst, `,"delta":`, delta), true
}

// appendMember appends a member that is absent when it is empty.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendString(append(dst, name...), value)
}

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	if strings.IndexByte(s, lineSeparatorByte) >= 0 {
		quoted, _ := json.Marshal(s, wire, jsontext.AllowInvalidUTF8(true)) // a string fails only for invalid UTF-8
		return append(dst, quoted...)
	}
	dst, _ = jsontext.AppendQuote(dst, s) // likewise
	return dst
}

// isPlain reports whether s needs no escape in JSON. That holds for ids and for most text of a model.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == 0x7f {
			return false
		}
	}
	return true
}

// lineSeparatorByte begins U+2028 and U+2029, which the encoder must escape, and some harmless characters.
const lineSeparatorByte = 0xE2
