package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// What a terminal obeys.
const (
	dim   = "\x1b[2m"
	bold  = "\x1b[1m"
	plain = "\x1b[0m"
)

// Aside shows a line of its own that is no part of the answer.
func (s *Screen) Aside(text string) error {
	if s.options.JSON {
		return nil
	}
	if err := s.endLine(); err != nil {
		return err
	}
	if err := s.text(s.side, dim, text); err != nil {
		return err
	}
	return s.endLine()
}

// Ask shows a question, and leaves the cursor behind it.
func (s *Screen) Ask(question string) error {
	if err := s.endLine(); err != nil {
		return err
	}
	if err := s.text(s.side, bold, question); err != nil {
		return err
	}
	s.midLine = s.midLine && !s.options.Echo // else the answer ends the line
	return nil
}

// text writes text from outside in a style of ours.
func (s *Screen) text(to io.Writer, style, text string) error {
	if text == "" {
		return nil
	}
	if s.last != to {
		if err := s.endLine(); err != nil {
			return err
		}
	}
	text = Clean(text)
	s.last, s.midLine = to, !strings.HasSuffix(text, "\n")
	if style != "" && s.options.Colour {
		text = style + text + plain
	}
	return write(to, []byte(text))
}

// endLine makes sure that what comes next starts a line.
func (s *Screen) endLine() error {
	if !s.midLine {
		return nil
	}
	s.midLine = false
	return write(s.last, []byte("\n"))
}

func write(to io.Writer, text []byte) error {
	if _, err := to.Write(text); err != nil {
		return fmt.Errorf("write to the terminal: %w", err)
	}
	return nil
}

// Clean drops what a terminal would obey from text that comes from outside: control characters but line feed and tab,
// and characters that change the direction of text. What joins emoji and letters stays.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u200d' || r == '\u200c':
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return -1
		default:
			return r
		}
	}, text)
}

// shortest is how much of a tool's arguments a line shows, in characters.
const shortest = 200

// Short makes text fit about one line: its spaces are single ones, and the end of a long one is left out.
func Short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= shortest {
		return text
	}
	return string(runes[:shortest]) + "…"
}
