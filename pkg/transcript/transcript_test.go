package transcript

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

func unmarshal(line []byte, to any) error { return json.Unmarshal(line, to) }

// TestTranscripts folds the events of each file in testdata and compares what the state then says.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: archive.Comment, Files: []txtar.File{
				archive.Files[0], {Name: "state", Data: []byte(describe(fold(parse(t, archive.Files[0].Data))))},
			}}
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got, want := string(txtar.Format(got)), string(txtar.Format(archive)); got != want {
				t.Errorf("the state differs from %s (run with -update to rewrite it); got\n%s", file, got)
			}
		})
	}
}

func parse(t *testing.T, text []byte) []event.Event {
	t.Helper()
	var events []event.Event
	for line := range strings.Lines(string(text)) {
		e, err := event.Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

func describe(s *State) string {
	var b strings.Builder
	for _, m := range s.Messages() {
		fmt.Fprintf(&b, "%s:", m.Role)
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Text:
				fmt.Fprintf(&b, " text %q", p.Text)
			case backend.Thinking:
				fmt.Fprintf(&b, " thinking %q", p.Text)
			case backend.Call:
				fmt.Fprintf(&b, " call %s %s%s", p.ID, p.Name, p.Args)
			case backend.Result:
				fmt.Fprintf(&b, " result %s %s %q", p.ID, p.Status, p.Content)
			case backend.Media:
				fmt.Fprintf(&b, " %s %s", p.Input.Type, p.Input.URL)
			}
		}
		b.WriteByte('\n')
	}
	for _, c := range s.Waiting() {
		fmt.Fprintf(&b, "waits: %s own=%t invalid=%t", c.ID, c.Own, c.Invalid)
		if c.Action != nil {
			fmt.Fprintf(&b, " action=%s answered=%t", c.Action.ActionID, c.Action.Answer != nil)
		}
		b.WriteByte('\n')
	}
	for _, o := range s.Open() {
		fmt.Fprintf(&b, "open: %s %s %q\n", o.ID, o.Kind, o.Text)
	}
	for _, u := range s.Unfinished() {
		fmt.Fprintf(&b, "unfinished: %s %s %q\n", u.ID, u.Kind, u.Text)
	}
	finish, answered := s.Answered()
	fmt.Fprintf(&b, "turns=%d stalls=%d next=%d answered=%t %s terminal=%s\n",
		s.Turns(), s.Stalls(), s.NextBlock(), answered, finish, s.Terminal())
	return b.String()
}

type objects map[string]string

func (o objects) Object(_ context.Context, ref event.ObjectRef) ([]byte, error) {
	text, ok := o[ref.Object]
	if !ok {
		return nil, errors.New("no such object")
	}
	return []byte(text), nil
}

func TestLoadFetchesLargeOutputs(t *testing.T) {
	t.Parallel()
	s := fold([]event.Event{{RequestID: "req_1", Body: event.ToolOutput{ToolCallID: "c1", Ref: &event.ObjectRef{Object: "obj_1"}}}})
	if err := s.Load(t.Context(), objects{}); err == nil {
		t.Error("an output that cannot be read went unnoticed")
	}
	if err := s.Load(t.Context(), objects{"obj_1": "large"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Output("c1"); got.Content != "large" {
		t.Errorf("got %+v", got)
	}
}
