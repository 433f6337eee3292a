package sandbox

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// overflowID is the user and group of a program inside the sandbox, and outside too if this process is root.
const overflowID = 65534

// attach sets what the kernel does when the process starts.
func attach(cmd *exec.Cmd, p Policy) {
	root := os.Geteuid() == 0
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if root || !p.Bare {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: overflowID, Gid: overflowID, NoSetGroups: !root}
	}
	if p.Bare {
		if root {
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SETPCAP}
		}
		return
	}
	user, group := os.Geteuid(), os.Getegid()
	if root {
		user, group = overflowID, overflowID
	}
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: overflowID, HostID: user, Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: overflowID, HostID: group, Size: 1}}
	cmd.SysProcAttr.GidMappingsEnableSetgroups = root
	// To mount, to deny user namespaces and to give up capabilities, until the program begins.
	cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE, unix.CAP_SETPCAP}
}
