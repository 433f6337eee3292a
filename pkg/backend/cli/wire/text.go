package wire

import (
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// Text decodes an output that is the answer itself.
func Text() Decoder { return &text{} }

type text struct {
	rest   []byte // the start of a character
	report Report
}

// Write implements [Decoder].
func (t *text) Write(p []byte) ([]backend.Chunk, error) {
	p = append(t.rest, p...)
	whole := len(p)
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if start := len(p) - i; utf8.RuneStart(p[start]) {
			if !utf8.FullRune(p[start:]) {
				whole = start
			}
			break
		}
	}
	t.rest = append([]byte(nil), p[whole:]...)
	return said(p[:whole]), nil
}

// Close implements [Decoder].
func (t *text) Close() ([]backend.Chunk, error) {
	rest := t.rest
	t.rest, t.report.Finish = nil, event.FinishStop
	return said(rest), nil
}

// Requests implements [Decoder].
func (*text) Requests() []Request { return nil }

// Report implements [Decoder].
func (t *text) Report() Report { return t.report }

func said(p []byte) []backend.Chunk {
	if len(p) == 0 {
		return nil
	}
	return []backend.Chunk{backend.TextDelta(string([]rune(string(p))))} // each invalid byte becomes U+FFFD
}
