package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// emptied is how long the kernel may take to end the processes of a cgroup.
	emptied = 5 * time.Second
	// look is the time between two looks whether it has done so.
	look = 10 * time.Millisecond
)

// controllers are those that a delegated cgroup must have.
func controllers() []string { return []string{"memory", "pids"} }

// delegated makes sure that cgroups below dir can be limited. dir must be a cgroup of version 2 that this process may write
// and in which no process is.
func delegated(dir string) error {
	var kind unix.Statfs_t
	if err := unix.Statfs(dir, &kind); err != nil {
		return fmt.Errorf("look at cgroup %s: %w", dir, err)
	}
	if kind.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is not a cgroup of version 2; name the folder of one that is delegated to this service", dir)
	}
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read the controllers of a cgroup: %w", err)
	}
	for _, name := range controllers() {
		if !slices.Contains(strings.Fields(string(has)), name) {
			return fmt.Errorf("cgroup %s has no controller %s; delegate memory and pids to it, or remove sandbox.cgroup", dir, name)
		}
	}
	// A cgroup in which processes are cannot give controllers to those below it.
	if err := write(dir, "cgroup.subtree_control", "+memory +pids"); err != nil {
		return fmt.Errorf("limit the cgroups below %s (it must be writable, and no process may be in it): %w", dir, err)
	}
	return nil
}

// join starts cmd in a new cgroup below dir, with limits by the names of their files. When ctx is done, the remaining
// processes are killed and the cgroup is removed.
func join(ctx context.Context, cmd *exec.Cmd, dir string, limits map[string]string) error {
	own, err := os.MkdirTemp(dir, "program-")
	if err != nil {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	for name, value := range limits {
		if err := write(own, name, value); err != nil {
			return errors.Join(fmt.Errorf("limit cgroup %s: %w", own, err), os.Remove(own))
		}
	}
	folder, err := os.Open(own)
	if err != nil {
		return errors.Join(fmt.Errorf("open cgroup %s: %w", own, err), os.Remove(own))
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(folder.Fd())
	context.AfterFunc(ctx, func() {
		_ = folder.Close() // it was only read
		remove(own)
	})
	return nil
}

// cgroup are the limits by the names of their files. A program that has no memory left is ended as a whole. Swap is not
// everywhere: see write.
func (l Limits) cgroup() map[string]string {
	return map[string]string{
		"memory.max": strconv.FormatInt(l.Memory, 10), "memory.oom.group": "1", "memory.swap.max": "0",
		"pids.max": strconv.Itoa(l.Processes),
	}
}

func write(dir, name, value string) error {
	err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0)
	if name == "memory.swap.max" && errors.Is(err, fs.ErrNotExist) {
		return nil // the kernel has no swap to limit
	}
	return err
}

// remove ends what is left in a cgroup, and removes it. What the kernel does not end in time stays, with its limits.
func remove(own string) {
	_ = write(own, "cgroup.kill", "1") // kernels before 5.14 cannot; the process group of the program is killed anyway
	for end := time.Now().Add(emptied); time.Now().Before(end); time.Sleep(look) {
		if err := os.Remove(own); !errors.Is(err, unix.EBUSY) {
			return
		}
	}
}
