package tarko_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/eventschema"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/agentbus/agentbus/schemas"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestStories holds what both vocabularies say of whole logs: testdata/stories has one story a file.
func TestStories(t *testing.T) {
	t.Parallel()
	for _, file := range stories(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			log := readLog(t, archive.Files[0].Data)
			got := txtar.Archive{Comment: archive.Comment, Files: []txtar.File{
				archive.Files[0],
				{Name: "flat", Data: lines(t, project(t, tarko.Flat, log), eventstream.Event.AppendFlat)},
				{Name: "nested", Data: lines(t, project(t, tarko.Nested, log), eventstream.Event.AppendNested)},
			}}
			if *update {
				if err := os.WriteFile(file, txtar.Format(&got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(txtar.Format(&got), txtar.Format(archive)) && !*update {
				t.Errorf("got\n%s\nrun with -update and read the difference", txtar.Format(&got))
			}
		})
	}
}

func stories(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "stories", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	return files
}

// readLog reads the lines "<event> {members}" of one or more requests, which a line "request <id>" begins. An event comes
// every 100 ms.
func readLog(t *testing.T, text []byte) []event.Event {
	t.Helper()
	var log []event.Event
	request, n, at := "req_1", uint64(0), time.UnixMilli(1_700_000_000_000).UTC()
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		name, rest, _ := strings.Cut(scanner.Text(), " ")
		if name == "request" {
			request, n = rest, 0
			continue
		}
		members := strings.TrimPrefix(rest, "{")
		line := `{"event":"` + name + `","requestId":"` + request + `","timestamp":"` + at.Format(time.RFC3339Nano) + `",` + members
		e, err := event.Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, unknown := e.Body.(event.Unknown); unknown {
			t.Fatalf("%s: no such event", line)
		}
		e.ID = event.NewCursor("k3f9", n)
		log, n, at = append(log, e), n+1, at.Add(100*time.Millisecond)
	}
	return log
}

// project projects a log into a vocabulary.
func project(t *testing.T, v tarko.Vocabulary, log []event.Event) []eventstream.Event {
	t.Helper()
	p := tarko.NewProjector(v)
	var told []eventstream.Event
	for _, e := range log {
		events, err := p.Project(e)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, events...)
	}
	return told
}

func lines(t *testing.T, events []eventstream.Event, form func(eventstream.Event, []byte) ([]byte, error)) []byte {
	t.Helper()
	var out []byte
	var err error
	for _, e := range events {
		if out, err = form(e, out); err != nil {
			t.Fatalf("%s: %v", e.Data, err)
		}
		out = append(out, '\n')
	}
	return out
}

// TestEveryStoryKeepsTheRules checks on every story, whole and cut off anywhere, what [tarko.Projector] promises.
func TestEveryStoryKeepsTheRules(t *testing.T) {
	t.Parallel()
	for _, file := range stories(t) {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		log := readLog(t, archive.Files[0].Data)
		for end := range log {
			for _, v := range []tarko.Vocabulary{tarko.Flat, tarko.Nested} {
				if problem := broken(v, project(t, v, log[:end+1])); problem != "" {
					t.Fatalf("%s, the first %d events: %s", file, end+1, problem)
				}
			}
		}
		for _, v := range []tarko.Vocabulary{tarko.Flat, tarko.Nested} {
			if got, want := stored(project(t, v, withoutDeltas(log))), stored(project(t, v, log)); !same(got, want) {
				t.Errorf("%s: without deltas: got\n%s\nwant\n%s", file,
					lines(t, got, eventstream.Event.AppendNested), lines(t, want, eventstream.Event.AppendNested))
			}
		}
	}
}

// TestEveryStoryFitsTheSchemas validates every event, except the events of applications, which have no schema.
func TestEveryStoryFitsTheSchemas(t *testing.T) {
	t.Parallel()
	registries := map[tarko.Vocabulary]*eventstream.Schemas{
		tarko.Flat: registry(t, eventstream.Flat, "tarko/flat"), tarko.Nested: registry(t, eventstream.Nested, "tarko/nested"),
	}
	for _, file := range stories(t) {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for v, known := range registries {
			for _, e := range project(t, v, readLog(t, archive.Files[0].Data)) {
				err := known.Validate(e)
				if custom := strings.HasPrefix(e.Type, "custom_"); custom != errors.Is(err, eventschema.ErrNoSchema) || err != nil && !custom {
					t.Errorf("%s: %s %s: %v", file, e.Type, e.Data, err)
				}
			}
		}
	}
	ends := []eventstream.Event{
		tarko.SessionStarted("thr_1", "demo", time.UnixMilli(1)), tarko.SessionEnded("thr_1", time.UnixMilli(1), time.UnixMilli(9), 4),
	}
	for _, e := range ends {
		if err := registries[tarko.Nested].Validate(e); err != nil {
			t.Errorf("%s %s: %v", e.Type, e.Data, err)
		}
	}
}

func registry(t *testing.T, form eventstream.Form, dir string) *eventstream.Schemas {
	t.Helper()
	r := eventstream.NewSchemas(form)
	if err := r.Read(schemas.FS, dir); err != nil {
		t.Fatal(err)
	}
	return r
}

// broken says which promise a stream of events breaks; "" for none.
func broken(v tarko.Vocabulary, told []eventstream.Event) string {
	ids := map[string]bool{}
	said := map[string]string{}
	closed := map[string]bool{}
	for _, e := range told {
		if ids[e.ID] {
			return "the id " + e.ID + " comes twice"
		}
		ids[e.ID] = true
		if !knows(v, tarko.Type(e.Type)) {
			return "the type " + e.Type + " is not among the vocabulary's"
		}
		var m struct {
			Content   json.RawMessage `json:"content"`
			Delta     json.RawMessage `json:"delta"`
			MessageID string          `json:"messageId"`
		}
		if err := e.Decode(&m); err != nil {
			return err.Error()
		}
		stream, final, member := kindOf(tarko.Type(e.Type))
		if stream == "" || final && m.MessageID == "" {
			continue // an imported message has no increments
		}
		text := m.Content
		if member == "delta" {
			text = m.Delta
		}
		key := stream + " " + m.MessageID
		if closed[key] {
			return "more of " + key + " after its end"
		}
		if !final {
			said[key] += unquote(text)
			continue
		}
		closed[key] = true
		if said[key] != unquote(text) {
			return key + ": the increments say " + said[key] + ", the end says " + unquote(text)
		}
	}
	return ""
}

// kindOf says which part of a message a type has, whether it ends that, and in which member its text is.
func kindOf(t tarko.Type) (stream string, final bool, member string) {
	switch t {
	case tarko.TypeAssistantStreamingMessage, tarko.TypeFinalAnswerStreaming:
		return "text", false, "content"
	case tarko.TypeAssistantMessageDelta:
		return "text", false, "delta"
	case tarko.TypeAssistantMessage, tarko.TypeFinalAnswer:
		return "text", true, "content"
	case tarko.TypeAssistantStreamingThinkingMessage:
		return "thinking", false, "content"
	case tarko.TypeAssistantThinkingMessage:
		return "thinking", true, "content"
	default:
		return "", false, ""
	}
}

func knows(v tarko.Vocabulary, kind tarko.Type) bool {
	return slices.Contains(v.Types(), kind) || strings.HasPrefix(string(kind), "custom_")
}

func unquote(v json.RawMessage) string {
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return string(v)
	}
	return string(text)
}

func withoutDeltas(log []event.Event) []event.Event {
	var rest []event.Event
	for _, e := range log {
		line, err := event.Encode(e)
		if err == nil && (!bytes.Contains(line, []byte(`"stage":"delta"`)) || e.Body.Name() == event.NamePlan) {
			rest = append(rest, e)
		}
	}
	return rest
}

// stored leaves out what a list of a session's events does not have.
func stored(events []eventstream.Event) []eventstream.Event {
	var rest []eventstream.Event
	for _, e := range events {
		if !tarko.Type(e.Type).IsStreaming() {
			rest = append(rest, e)
		}
	}
	return rest
}

func same(a, b []eventstream.Event) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || a[i].Type != b[i].Type || !bytes.Equal(a[i].Data, b[i].Data) || !a[i].Time.Equal(b[i].Time) {
			return false
		}
	}
	return true
}
