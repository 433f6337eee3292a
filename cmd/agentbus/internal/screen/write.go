package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// ANSI sequences.
const (
	dim   = "\x1b[2m"
	bold  = "\x1b[1m"
	plain = "\x1b[0m"

	clearLine = "\r\x1b[K"
)

// Aside shows a line that is not part of the answer.
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

// Ask shows a question, and leaves the cursor after it.
func (s *Screen) Ask(question string) error {
	if err := s.endLine(); err != nil {
		return err
	}
	if err := s.text(s.side, bold, question); err != nil {
		return err
	}
	s.midLine = s.midLine && !s.options.Echo // otherwise the user's input ends the line
	return nil
}

// Wait shows a text that the next output replaces, and "" removes it. It shows nothing in the middle of a line, or if the
// output is not a terminal.
func (s *Screen) Wait(text string) error {
	if !s.options.Colour || !s.options.Echo || s.options.JSON || s.midLine {
		return nil
	}
	if err := s.endWait(); err != nil || text == "" {
		return err
	}
	s.waiting = true
	return write(s.side, []byte(dim+text+plain))
}

func (s *Screen) endWait() error {
	if !s.waiting {
		return nil
	}
	s.waiting = false
	return write(s.side, []byte(clearLine))
}

// text writes text from outside in the given style.
func (s *Screen) text(to io.Writer, style, text string) error {
	if text == "" {
		return nil
	}
	if err := s.endWait(); err != nil {
		return err
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

// endLine ends the current line, so that the next output starts a line.
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

// Clean removes characters that control a terminal from text: control characters except line feed and tab, and those
// that change the direction of text. Joiners of emoji and letters stay.
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

// shortest is the length to which a tool's arguments are shortened, in characters.
const shortest = 200

// Short shortens text to about one line, and collapses white space.
func Short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= shortest {
		return text
	}
	return string(runes[:shortest]) + "…"
}
