package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of a history.
const (
	maxEntries = 1000
	maxEntry   = 4 << 10 // bytes; a longer line is not kept
)

// history is the lines of earlier inputs, also those of other processes if it has a file. It implements [term.History].
type history struct {
	file    string   // "" = nothing is stored
	entries []string // the oldest first
}

// openHistory reads the file, which need not exist, and removes what is beyond the bounds.
func openHistory(file string) (*history, error) {
	h := &history{file: file}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, fmt.Errorf("create the folder of the history: %w", err)
		}
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	for line := range bytes.Lines(text) {
		h.push(string(bytes.TrimSuffix(line, []byte("\n"))))
	}
	kept := strings.Join(h.entries, "\n")
	if kept != "" {
		kept += "\n"
	}
	if kept == string(text) {
		return h, os.Chmod(file, 0o600)
	}
	return h, replaceFile(file, kept)
}

// replaceFile replaces the file as a whole, so that another process reads the old content or the new one.
func replaceFile(file, text string) error {
	next, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // readable by the user alone
	if err != nil {
		return fmt.Errorf("shorten the history: %w", err)
	}
	_, err = next.WriteString(text)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("shorten the history: %w", err), os.Remove(next.Name()))
	}
	return nil
}

// push adds an entry, and reports whether it is one that is kept.
func (h *history) push(entry string) bool {
	if entry == "" || len(entry) > maxEntry || strings.ContainsAny(entry, "\r\n") ||
		len(h.entries) > 0 && h.entries[len(h.entries)-1] == entry {
		return false
	}
	h.entries = append(h.entries, entry)
	if len(h.entries) > maxEntries {
		h.entries = slices.Delete(h.entries, 0, len(h.entries)-maxEntries)
	}
	return true
}

// Add implements [term.History]. After an error nothing more is stored: the input matters more than its history.
func (h *history) Add(entry string) {
	if !h.push(entry) || h.file == "" {
		return
	}
	file, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(entry + "\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		h.file = ""
	}
}

// Len implements [term.History].
func (h *history) Len() int { return len(h.entries) }

// At implements [term.History].
func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }
