//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// programVariable names the folder in which the test program works as the program of an agent.
const programVariable = "AGENT_SERVER_TEST_PROGRAM"

// program ignores what asks it to end, and has a child of its own. Both hold a lock as long as they live. It writes their
// process ids, or that another program holds the lock, and works until a file says that it may end.
func program(dir string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	late := time.Now().Add(10 * time.Second) // a program that was killed may take a moment to be gone
	for syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		if time.Now().After(late) {
			_, err := fmt.Fprintln(log, "another program works here")
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	child := exec.Command("sleep", "3600")
	child.ExtraFiles = []*os.File{lock}
	if err := child.Start(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(log, "run", os.Getpid(), child.Process.Pid); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "end")); err == nil {
			_, err := fmt.Fprintln(os.Stdout, "done")
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A process that is killed takes the program of its task with it, and what that has started. The process that resumes
// the task runs no second program while the first one runs.
func TestAKilledProcessLeavesNoProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.yaml")
	config := fmt.Sprintf("agents: {worker: {backend: cli, workspace: %q, cli: {command: %q, env: {%s: %q}}}}\n"+
		"agentServer: {agent: worker, onCrash: resume}\n", dir, exe, programVariable, dir)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "AGENT_BACKEND=", "CONFIG_FILE="+file)
	task := p.create(remoteagent.Assignment{Prompt: "work"})
	first := runs(t, dir, 1)[0]
	t.Cleanup(func() {
		for _, pid := range first {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	p.signal(syscall.SIGKILL)

	p = start(t, dir, "AGENT_BACKEND=", "CONFIG_FILE="+file)
	runs(t, dir, 2)
	for _, pid := range first {
		gone(t, pid)
	}
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got := p.finish(task.TaskID, 0); got.Status != remoteagent.Completed || strings.TrimSpace(got.Result) != "done" {
		t.Errorf("got %+v", got)
	}
	runs(t, dir, 2)
}

// runs waits for so many programs to have run, and returns their process ids and those of their children.
func runs(t *testing.T, dir string, want int) (all [][2]int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		text, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all = nil
		for line := range strings.Lines(string(text)) {
			var pids [2]int
			if n, _ := fmt.Sscanf(line, "run %d %d\n", &pids[0], &pids[1]); n != 2 {
				t.Fatalf("the second program says: %s", line)
			}
			all = append(all, pids)
		}
		if len(all) >= want {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d programs have run, want %d", len(all), want)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(all) != want {
		t.Fatalf("%d programs have run, want %d", len(all), want)
	}
	return all
}

// gone waits for a process to have ended. One that its new parent has not waited for has.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}
