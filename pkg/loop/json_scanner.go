package loop

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonStringScanner scans the JSON text of an object as it arrives, and extracts the member "content". It does not
// validate: the complete text is decoded later.
type jsonStringScanner struct {
	depth   int
	named   bool   // the next token at depth 1 is a value
	name    string // of the member
	values  map[string]string
	broken  bool   // a string with an invalid escape
	quoted  bool   // inside a string
	text    []byte // the string from its quote on
	escaped bool   // after a backslash
	hex     int    // digits still expected after \u
	whole   int    // length up to the last complete character
	given   int    // length that read has returned
}

// read returns the content that piece adds.
func (m *jsonStringScanner) read(piece []byte) string {
	var content []byte
	for _, b := range piece {
		if m.broken {
			break
		}
		if !m.quoted {
			m.outside(b)
			continue
		}
		m.text = append(m.text, b)
		if m.closes(b) {
			content = m.give(content)
			m.close()
		}
	}
	return string(m.give(content))
}

// value returns a complete string member, or "".
func (m *jsonStringScanner) value(name string) string { return m.values[name] }

func (m *jsonStringScanner) outside(b byte) {
	switch b {
	case '"':
		m.quoted, m.text = true, append(m.text[:0], b)
		m.whole, m.given = 1, 1
	case '{', '[':
		m.depth++
	case '}', ']':
		m.depth--
	case ',':
		m.named = m.named && m.depth != 1
	case ':':
		m.named = m.named || m.depth == 1
	}
}

// closes reports whether b ends the string, and updates the length of complete characters.
func (m *jsonStringScanner) closes(b byte) bool {
	switch {
	case m.hex > 0:
		m.hex--
		if m.hex == 0 && !m.half() {
			m.whole = len(m.text)
		}
	case m.escaped && b == 'u':
		m.escaped, m.hex = false, 4
	case m.escaped:
		m.escaped, m.whole = false, len(m.text)
	case b == '\\':
		m.escaped = true
	case b == '"':
		return true
	case b < utf8.RuneSelf || utf8.FullRune(lastRune(m.text)):
		m.whole = len(m.text)
	}
	return false
}

// half reports whether the text ends with the escape of a high surrogate.
func (m *jsonStringScanner) half() bool {
	code, err := strconv.ParseUint(string(m.text[len(m.text)-4:]), 16, 16)
	return err == nil && utf16.IsSurrogate(rune(code)) && code < 0xDC00
}

// lastRune returns the last character of text.
func lastRune(text []byte) []byte {
	start := len(text) - 1
	for start > max(0, len(text)-utf8.UTFMax) && !utf8.RuneStart(text[start]) {
		start--
	}
	return text[start:]
}

// give appends the complete characters of the content that were not returned yet.
func (m *jsonStringScanner) give(content []byte) []byte {
	if !m.quoted || m.broken || m.depth != 1 || !m.named || m.name != "content" || m.given == m.whole {
		return content
	}
	content = append(content, m.unquote(m.text[m.given:m.whole])...)
	m.given = m.whole
	return content
}

func (m *jsonStringScanner) close() {
	m.quoted = false
	if m.depth != 1 {
		return
	}
	text := m.unquote(m.text[1 : len(m.text)-1])
	if !m.named {
		m.name = text
		return
	}
	if m.values == nil {
		m.values = make(map[string]string)
	}
	m.values[m.name] = text
}

func (m *jsonStringScanner) unquote(text []byte) string {
	quoted := append(append([]byte{'"'}, text...), '"')
	plain, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		m.broken = true
		return ""
	}
	return string(plain)
}
