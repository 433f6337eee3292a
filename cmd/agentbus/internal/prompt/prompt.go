// Package prompt reads a person's input at a terminal, with line editing and a history.
package prompt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Terminal reads from a terminal. Only one goroutine may call Read at a time.
type Terminal struct {
	in, out *os.File
	editor  *term.Terminal

	mu    sync.Mutex
	saved *term.State // the state before the terminal was set for editing; nil = it is not
}

// New returns a reader of the terminal in, which shows its input on the terminal out.
func New(in, out *os.File) *Terminal {
	return &Terminal{in: in, out: out, editor: term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "")}
}

// KeepHistory stores the lines that are read in a file, readable by the user alone, and continues with those of earlier
// processes: the newest 1000.
func (t *Terminal) KeepHistory(file string) error {
	h, err := openHistory(file)
	if err != nil {
		return err
	}
	t.editor.History = h
	return nil
}

// Read shows question and reads one input, io.EOF after Ctrl-C and Ctrl-D. An input has several lines if a line ends with a
// backslash, or if several lines are pasted.
func (t *Terminal) Read(question string) (string, error) {
	if err := t.edit(); err != nil {
		return "", err
	}
	defer t.Close()
	if width, height, err := term.GetSize(int(t.out.Fd())); err == nil {
		_ = t.editor.SetSize(width, height) // redraws nothing yet
	}
	t.editor.SetBracketedPasteMode(true)
	defer t.editor.SetBracketedPasteMode(false)
	t.editor.SetPrompt(question)
	var lines []string
	for {
		line, err := t.editor.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		if err != nil && !pasted {
			_, _ = io.WriteString(t.out, "\r\n") // the end of the question's line
			return "", err
		}
		part, continues := strings.CutSuffix(line, `\`)
		lines = append(lines, part)
		if !pasted && !continues {
			return strings.Join(lines, "\n"), nil
		}
		t.editor.SetPrompt(". ")
	}
}

// edit sets the terminal for editing: every key arrives at once, and Ctrl-C is a key.
func (t *Terminal) edit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	saved, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("set the terminal for editing: %w", err)
	}
	t.saved = saved
	return nil
}

// Close restores the terminal, also while another goroutine reads.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_ = term.Restore(int(t.in.Fd()), t.saved) // fails if the terminal is gone
		t.saved = nil
	}
}
