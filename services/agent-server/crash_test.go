package agentserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/go-json-experiment/json"
)

// TestTaskWithOnlyClaimKeepsPrompt opens a server on what a process left that was killed after it had stored
// the claim of a task, and before the prompt.
func TestTaskWithOnlyClaimKeepsPrompt(t *testing.T) {
	t.Parallel()
	s := reopened(t, "/say hello", nil, event.Claim{Epoch: 1, Runner: "agent-server"})
	if got := s.finish("task_1"); got.Status != remoteagent.Completed || got.Result != "hello" {
		t.Errorf("got %s, want the task to answer its prompt", fmt.Sprintf("%+v", got))
	}
}

// TestTextOfATurnThatIsRunAgainIsSentOnce opens a server on what a process left that was killed within a text.
func TestTextOfATurnThatIsRunAgainIsSentOnce(t *testing.T) {
	t.Parallel()
	const script = "/say hello to all of you"
	index := 0
	s := reopened(t, script, []remoteagent.Body{remoteagent.Progress{Status: remoteagent.Running}, remoteagent.TextDelta{Text: "hello "}, remoteagent.TextDelta{Text: "to "}},
		event.Claim{Epoch: 1, Runner: "agent-server"},
		event.Input{ThreadID: "session_1", AgentID: "worker", Messages: []event.InputMessage{event.UserText(script)}},
		event.Text{Block: event.Block{MessageID: "msg_1", BlockID: "b0", Stage: event.StageStart, BlockIndex: &index}},
	)
	var text strings.Builder
	for _, e := range s.follow("task_1", 0) {
		if d, ok := e.Body.(remoteagent.TextDelta); ok {
			text.WriteString(d.Text)
		}
	}
	if got, want := text.String(), "hello to all of you"; got != want {
		t.Errorf("clients see %q, want %q", got, want)
	}
}

// reopened opens a server on a task that another process has begun: its prompt, what clients have seen of it, and its log.
func reopened(t *testing.T, prompt string, shown []remoteagent.Body, log ...event.Body) *server {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	kept, err := store.Open(t.Context(), filepath.Join(data, "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	task := remoteagent.Task{TaskID: "task_1", SessionID: "session_1", Status: remoteagent.Running, CreatedAt: now, UpdatedAt: now}
	if err := kept.Accept(t.Context(), store.Entry{Task: task, Assignment: remoteagent.Assignment{Prompt: prompt}, Cwd: dir}); err != nil {
		t.Fatal(err)
	}
	batch := store.Batch{Task: task}
	for i, body := range log {
		line, err := event.Encode(event.Event{RequestID: "task_1-0", Time: now, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		batch.Lines = append(batch.Lines, store.Line{N: int64(i + 1), Text: string(line)})
	}
	for i, body := range shown {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		batch.Events = append(batch.Events, store.Event{N: uint64(i + 1), Name: body.Name(), Data: string(text)})
	}
	if err := kept.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, setup{env: envAt(dir), config: config.Config{
		Agents:      map[string]config.Agent{"worker": {Backend: "scripted"}},
		AgentServer: config.AgentServer{Agent: "worker", OnCrash: config.OnCrashResume},
	}})
}
