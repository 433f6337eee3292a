//go:build unix

package procgroup_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/procgroup"
)

// The test binary is also the parent that is killed: with parentVariable set it starts a program that ignores what asks it
// to end and has a child of its own, prints their process ids, and waits.
const parentVariable = "PROCGROUP_PARENT"

func TestMain(m *testing.M) {
	if name := os.Getenv(parentVariable); name != "" {
		fmt.Fprintln(os.Stderr, parent(name))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func parent(name string) error {
	lock, err := procgroup.Acquire(context.Background(), name)
	if err != nil {
		return err
	}
	group, err := procgroup.New(lock)
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", `trap '' TERM HUP INT; sleep 3600 & echo $$ $!; wait`)
	cmd.Stdout = os.Stdout
	group.Join(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Wait()
}

func TestTheGroupEndsWithTheProcessThatStartedIt(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	brief, done := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer done()
	if _, err := procgroup.Acquire(brief, name); !errors.Is(err, procgroup.ErrLocked) {
		t.Fatalf("a second group: got %v, want ErrLocked", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	bounded, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	lock, err := procgroup.Acquire(bounded, name)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	deadline := time.Now().Add(time.Minute)
	for field := range strings.FieldsSeq(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		for runs(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d still runs", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// runs reports whether a process works. One that has ended and was not waited for by its new parent does not.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	if runtime.GOOS != "linux" {
		return true // its new parent waits for it
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil && !errors.Is(err, os.ErrNotExist) || err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestKillEndsWhatIsLeftAndReleasesTheLock(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	for range 3 {
		lock, err := procgroup.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		group, err := procgroup.New(lock)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "3600")
		group.Join(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		group.Kill()
		group.Kill()
		if err := cmd.Wait(); err == nil {
			t.Error("the program ended well, want it killed")
		}
	}
}

func TestAProgramOfAGroupInheritsNoDescriptors(t *testing.T) {
	t.Parallel()
	fd, err := syscall.Open("/", syscall.O_RDONLY, 0) // without O_CLOEXEC, as a parent leaves it to this process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) }) // nothing was written
	group, err := procgroup.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Kill()
	cmd := exec.Command("sh", "-c", "ls /dev/fd/"+strconv.Itoa(fd)+"/ && echo seen")
	group.Join(cmd)
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended || strings.Contains(string(out), "seen") {
		t.Errorf("got %q, %v; want a program without descriptor %d", out, err, fd)
	}
}
