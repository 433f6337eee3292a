package prompt

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func opened(t *testing.T, file string) *history {
	t.Helper()
	h, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHistoryIsKeptBetweenProcesses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state", "chat_history")
	first := opened(t, file)
	for _, entry := range []string{"one", "two", "two", "", "tabs\tand \u2028 stay", "a\nline", strings.Repeat("x", maxEntry+1)} {
		first.Add(entry)
	}
	second := opened(t, file)
	if second.Len() != 3 || second.At(0) != "tabs\tand \u2028 stay" || second.At(1) != "two" || second.At(2) != "one" {
		t.Errorf("got %q, want three entries, the newest first", second.entries)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want the mode %v", path, info.Mode(), err, want)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "chat_history")
	h := opened(t, file)
	for i := range maxEntries + 50 {
		h.Add(fmt.Sprint("line ", i))
	}
	for name, h := range map[string]*history{"this process": h, "the next one": opened(t, file)} {
		if h.Len() != maxEntries || h.At(0) != "line 1049" || h.At(maxEntries-1) != "line 50" {
			t.Errorf("%s: got %d entries from %q to %q, want the newest 1000", name, h.Len(), h.At(h.Len()-1), h.At(0))
		}
	}
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n") != maxEntries {
		t.Errorf("got %d lines, %v, want that the file was shortened", strings.Count(string(text), "\n"), err)
	}
}

func TestHistoryThatCannotBeStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := openHistory(dir); err == nil {
		t.Error("got no error for a folder in place of the file")
	}
	h := opened(t, filepath.Join(dir, "file"))
	h.file = filepath.Join(dir, "missing", "file")
	h.Add("one")
	h.Add("two")
	if h.Len() != 2 || h.file != "" {
		t.Errorf("got %d entries and the file %q, want that this process keeps them", h.Len(), h.file)
	}
}
