package journal_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
	jsonv2 "github.com/go-json-experiment/json"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	for _, subject := range journal.Tools(filepath.Join(t.TempDir(), "journal")) {
		t.Run(subject.Spec().Name, func(t *testing.T) {
			t.Parallel()
			tooltest.Run(t, subject, tooltest.Cases{
				Good: []string{`{}`, `{"mark":"x"}`, `{"mark":"x","delay":"1ms"}`},
				Bad:  []string{`{"delay":"soon"}`, `{"delay":"-1s"}`, `{"delay":"11s"}`, `{"mark":1}`},
				Slow: `{"delay":"9s"}`,
			})
		})
	}
}

func TestEachExecutionIsNotedAtItsStartAndItsEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	for _, subject := range journal.Tools(path) {
		call := tool.Call{ID: "call-of-" + subject.Spec().Name, Args: json.RawMessage(`{"mark":"m"}`), Progress: func(string) {}}
		if _, err := subject.Call(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var ended []bool
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var l journal.Line
		if err := jsonv2.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Call != "call-of-"+l.Tool || string(l.Args) != `{"mark":"m"}` || l.At.IsZero() {
			t.Errorf("got %+v", l)
		}
		ended = append(ended, l.Ended)
	}
	if len(ended) != 8 || ended[0] || !ended[1] {
		t.Errorf("got ends %v, want a start and an end of each of 4", ended)
	}
}
