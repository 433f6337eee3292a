package sandbox

import (
	"context"
	"os/exec"
	"strconv"
	"syscall"
)

// JoinCgroup starts a program in a cgroup of its own below dir, which has no limits, and returns its process id.
func JoinCgroup(ctx context.Context, dir string, argv ...string) (pid string, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := join(ctx, cmd, dir, nil); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = cmd.Wait() }) // it was killed
	return strconv.Itoa(cmd.Process.Pid), nil
}
