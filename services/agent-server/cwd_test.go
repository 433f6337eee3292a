package agentserver_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

func TestCwdStaysInTheRoot(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	outside := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(s.root(), "app/deep"), 0o700),
		os.WriteFile(filepath.Join(s.root(), "file"), nil, 0o600),
		os.Symlink(outside, filepath.Join(s.root(), "escape")),
		os.Symlink(filepath.Join(s.root(), "app"), filepath.Join(s.root(), "alias")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, cwd string
		good      bool
	}{
		{"a relative folder", "app/deep", true},
		{"an absolute folder", filepath.Join(s.root(), "app"), true},
		{"the root itself", ".", true},
		{"a link that stays inside", "alias", true},
		{"a folder that is not there", "nowhere", false},
		{"a file", "file", false},
		{"a parent", "..", false},
		{"a path that leaves the root and returns", "app/../app", true},
		{"an absolute folder outside", outside, false},
		{"a link that leads outside", "escape", false},
		{"a folder behind a link that leads outside", "escape/x", false},
		{"a NUL", "app\x00", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			task, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi", Cwd: test.cwd}, "")
			if test.good {
				if err != nil {
					t.Fatal(err)
				}
				s.finish(task.TaskID)
				s.until("the place is free", func() bool { info, err := s.Info(t.Context()); return err == nil && info.CurrentTask == nil })
				return
			}
			if r := refusal(err); r.HTTP != http.StatusBadRequest || r.Code != remoteagent.InvalidCwd || strings.Contains(r.Message, outside) && test.cwd != outside {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A folder is checked when its task is accepted, and an agent that may write in its parent folder can put a link in its place later.
func TestAFolderThatIsReplacedLeadsNowhere(t *testing.T) {
	t.Parallel()
	for name, replaced := range map[string]string{"the folder": "app/deep", "a folder above it": "app"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside, queued := t.TempDir(), make(chan struct{})
			var s *server
			s = open(t, setup{config: config.Config{AgentServer: config.AgentServer{Queue: 1}}, change: func(settings *agentserver.Settings) {
				spec := tool.Spec{Name: "replace", Description: "Replaces a folder.", Schema: []byte(`{"type":"object"}`)}
				settings.Tools = append(settings.Tools, tool.Func(spec, func(context.Context, struct{}, tool.Call) (tool.Result, error) {
					<-queued
					if err := os.RemoveAll(filepath.Join(s.root(), replaced)); err != nil {
						return tool.Result{}, err
					}
					return tool.Result{Content: "done"}, os.Symlink(filepath.Join(outside, replaced), filepath.Join(s.root(), replaced))
				}))
				settings.Agent.Tools = append(settings.Agent.Tools, spec)
			}})
			for _, err := range []error{
				os.MkdirAll(filepath.Join(s.root(), "app/deep"), 0o700), os.MkdirAll(filepath.Join(outside, "app/deep"), 0o700),
				os.WriteFile(filepath.Join(s.root(), "app/deep/file"), []byte("inside"), 0o600),
				os.WriteFile(filepath.Join(outside, "app/deep/file"), []byte("outside"), 0o600),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			const read = `/tool read_file {"path":"file"}`
			task := s.create(remoteagent.Assignment{Prompt: read + "\n/tool replace {}\n" + read, Cwd: "app/deep"})
			waits := s.create(remoteagent.Assignment{Prompt: read, Cwd: "app/deep"})
			close(queued)
			var ends []remoteagent.ToolEnd
			for _, e := range s.follow(task.TaskID, 0) {
				if end, ok := e.Body.(remoteagent.ToolEnd); ok {
					ends = append(ends, end)
				}
			}
			if len(ends) != 3 || !ends[0].Success || !ends[1].Success || ends[2].Success {
				t.Errorf("got %+v, want a file, a folder that is replaced, and an error", ends)
			}
			if got := s.finish(waits.TaskID); got.Status != remoteagent.Failed || !strings.Contains(got.Error, "replaced") {
				t.Errorf("the task that began later: got %+v", got)
			}
		})
	}
}
