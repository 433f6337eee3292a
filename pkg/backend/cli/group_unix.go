//go:build unix

package cli

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup lets the program lead a group of its own, so that what it starts can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the group to end.
func endGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup ends whatever is left of the group, mostly nothing.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
