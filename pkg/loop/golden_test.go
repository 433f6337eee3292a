package loop

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden transcripts")

// TestTranscripts runs the requests of each file in testdata on one thread and compares the logs that they leave. A
// request is a prompt or, if it starts with "{", the JSON of a request; $1 stands for the first action that waits.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { transcriptFile(t, file) })
		})
	}
}

func transcriptFile(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	th := newThread(t)
	got := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		n, isRequest := strings.CutPrefix(f.Name, "request ")
		if !isRequest {
			continue
		}
		got.Files = append(got.Files, f, txtar.File{Name: "log " + n, Data: []byte(th.play(f.Data))})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := string(txtar.Format(got)), string(txtar.Format(archive)); got != want {
		t.Errorf("the log differs from %s (run with -update to rewrite it); got\n%s", file, got)
	}
}

// play runs one request of a transcript and returns its log without envelopes, which say nothing.
func (th *thread) play(text []byte) string {
	prompt := strings.TrimSpace(string(text))
	var events []event.Event
	if strings.HasPrefix(prompt, "{") {
		for i, action := range th.pending {
			prompt = strings.ReplaceAll(prompt, fmt.Sprintf("$%d", i+1), action.ActionID)
		}
		var request event.AgentRequest
		if err := json.Unmarshal([]byte(prompt), &request); err != nil {
			th.t.Fatal(err)
		}
		events = th.request(request)
	} else {
		events = th.say(prompt)
	}
	var b strings.Builder
	for i, e := range events {
		if got, err := event.Decode([]byte(strings.Split(lines(events), "\n")[i])); err != nil || got.Body.Name() != e.Body.Name() {
			th.t.Fatalf("event %d does not survive a round trip: %v", i, err)
		}
		body, err := json.Marshal(e.Body, json.Deterministic(true))
		if err != nil {
			th.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", e.Body.Name(), body)
	}
	return b.String()
}
