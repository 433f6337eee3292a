package agentserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

// TestATaskWhoseClaimAloneIsStoredKeepsItsPrompt opens a server on what a process left that was killed after it had stored
// the claim of a task, and before the prompt.
func TestATaskWhoseClaimAloneIsStoredKeepsItsPrompt(t *testing.T) {
	t.Parallel()
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
	if err := kept.Accept(t.Context(), store.Entry{Task: task, Assignment: remoteagent.Assignment{Prompt: "/say hello"}, Cwd: dir}); err != nil {
		t.Fatal(err)
	}
	claim, err := event.Encode(event.Event{RequestID: "task_1-0", Time: now, Body: event.Claim{Epoch: 1, Runner: "agent-server"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Append(t.Context(), store.Batch{Task: task, Lines: []store.Line{{N: 1, Text: string(claim)}}}); err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, setup{env: envAt(dir), config: config.Config{
		Agents:      map[string]config.Agent{"worker": {Backend: "scripted"}},
		AgentServer: config.AgentServer{Agent: "worker", OnCrash: config.OnCrashResume},
	}})
	if got := s.finish("task_1"); got.Status != remoteagent.Completed || got.Result != "hello" {
		t.Errorf("got %s, want the task to answer its prompt", fmt.Sprintf("%+v", got))
	}
}
