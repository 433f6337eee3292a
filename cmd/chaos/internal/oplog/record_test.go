package oplog

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestEntriesAreKeptAndWritten(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	l := New(&file)
	l.Add(Entry{Actor: "a", Op: Read, Seen: []Seen{{N: 3, Name: "text"}, {N: 4, Name: "done"}}, End: Terminal})
	l.Add(Entry{Actor: "b", Op: Post, Status: 202, Key: "k"})
	if got := l.Entries(); len(got) != 2 || got[0].Events != 2 || got[1].Took <= 0 {
		t.Errorf("got %+v", got)
	}
	lines := strings.Split(strings.TrimSpace(file.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"events":2`) || strings.Contains(lines[1], "null") {
		t.Errorf("wrote %q", file.String())
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}

func TestUnwritableFileIsReported(t *testing.T) {
	t.Parallel()
	l := New(full{})
	l.Add(Entry{Actor: "a", Op: Post})
	if l.Err() == nil || len(l.Entries()) != 1 {
		t.Errorf("got %v and %d entries", l.Err(), len(l.Entries()))
	}
}

func TestSumsDistinguishEvents(t *testing.T) {
	t.Parallel()
	if SumOf([]byte(`{"n":1}`)) == SumOf([]byte(`{"n":2}`)) {
		t.Error("two events have one sum")
	}
	if got := SumOf([]byte("x")).String(); len(got) != 8 {
		t.Errorf("got %q", got)
	}
}
