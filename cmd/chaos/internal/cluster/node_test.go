package cluster

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/testcluster"
)

// script supervises a shell script.
func script(t *testing.T, text string) *Node {
	t.Helper()
	n := newNode(testcluster.Command{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", text}, Dir: t.TempDir(),
		Ready: func(context.Context) error { return nil },
	})
	t.Cleanup(n.close)
	return n
}

// eventually polls until ok, and fails the test when that takes too long.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: that never came", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAProcessThatEndsByItselfIsStartedAgain(t *testing.T) {
	t.Parallel()
	n := script(t, "echo started")
	n.Up()
	eventually(t, "three starts", func() bool {
		text, _ := os.ReadFile(n.LogFile()) // not there yet is empty
		return strings.Count(string(text), "started") >= 3
	})
	if n.Lost() < 2 {
		t.Errorf("got %d ends by itself, want those before the third start", n.Lost())
	}
}

func TestAProcessThatIsKilledStaysDownUntilItIsWanted(t *testing.T) {
	t.Parallel()
	n := script(t, "exec sleep 60")
	n.Up()
	eventually(t, "the start", func() bool { return n.PID() != 0 })
	n.Kill()
	eventually(t, "the end", func() bool { return n.PID() == 0 })
	n.Kill() // does nothing
	n.Up()
	eventually(t, "the next start", func() bool { return n.PID() != 0 })
	if n.Lost() != 0 {
		t.Errorf("got %d ends by itself, want none", n.Lost())
	}
}

func TestAnOrderlyEndIsAskedFor(t *testing.T) {
	t.Parallel()
	n := script(t, `trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	n.Up()
	said := func(word string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(n.LogFile()) // as above
			return strings.Contains(string(text), word)
		}
	}
	eventually(t, "the start", said("ready"))
	n.Terminate()
	if !said("asked")() {
		t.Error("the process was ended without being asked")
	}
}

func TestAFrozenProcessDoesNothing(t *testing.T) {
	t.Parallel()
	n := script(t, `while :; do echo tick; sleep 0.01; done`)
	n.Up()
	ticks := func() int64 {
		info, err := os.Stat(n.LogFile())
		if err != nil {
			return 0
		}
		return info.Size()
	}
	eventually(t, "a tick", func() bool { return ticks() > 0 })
	if runtime.GOOS != "linux" {
		t.Skip("the state of a process is read from /proc")
	}
	n.Pause()
	state := filepath.Join("/proc", strconv.Itoa(n.PID()), "stat")
	eventually(t, "the freeze", func() bool {
		text, _ := os.ReadFile(state) // as above
		return strings.Contains(string(text), ") T ")
	})
	before := ticks()
	n.Resume()
	eventually(t, "the next tick", func() bool { return ticks() > before })
}

func TestMissingProgramIsReported(t *testing.T) {
	t.Parallel()
	n := newNode(testcluster.Command{Name: "missing", Path: "/nonexistent", Dir: t.TempDir(), Ready: func(context.Context) error {
		return context.DeadlineExceeded
	}})
	t.Cleanup(n.close)
	n.Up()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := n.Ready(ctx); err == nil || !strings.Contains(err.Error(), "start missing") {
		t.Errorf("got %v", err)
	}
}
