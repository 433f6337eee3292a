//go:build unix

package procgroup

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// guard is what leads a group: a shell that waits for the end of its input, which this process holds open for as long as
// it lives, and then kills its group, itself included. It leads the group so that the group's number is not used again
// before the guard has been waited for. Signals by which a program is asked to end do not end it.
const guard = `trap '' TERM INT HUP QUIT; read _; kill -KILL 0`

// Group is a process group. Its methods are safe for concurrent use.
type Group struct {
	leader *exec.Cmd
	hold   *os.File // the guard kills the group when this is closed
	end    func()
}

// New starts a group. The caller calls Kill when the program has ended, and hands over the lock with the call: nil = none.
//
// No program that this process starts from then on has a descriptor that this process inherited.
func New(lock *Lock) (*Group, error) {
	if err := closeOnExec(); err != nil {
		lock.Release()
		return nil, err
	}
	in, hold, err := os.Pipe() // no other child inherits either end
	if err != nil {
		lock.Release()
		return nil, fmt.Errorf("open a pipe for the guard of a process group: %w", err)
	}
	leader := exec.Command("/bin/sh", "-c", guard) //nolint:noctx // it outlives every context: the caller ends it
	leader.Stdin, leader.Env, leader.Dir = in, []string{}, "/"
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if lock != nil { // the group holds it too, should this process be killed
		leader.ExtraFiles = []*os.File{lock.file}
	}
	err = leader.Start()
	_ = in.Close() // the guard has its own
	if err != nil {
		_ = hold.Close()
		lock.Release()
		return nil, fmt.Errorf("start the guard of a process group: %w", err)
	}
	g := &Group{leader: leader, hold: hold}
	g.end = sync.OnceFunc(func() {
		_ = g.Signal(syscall.SIGKILL)
		_ = hold.Close()
		_ = leader.Wait() // it was killed
		lock.Release()
	})
	return g, nil
}

// Join has a command that is not started yet run in the group.
func (g *Group) Join(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.leader.Process.Pid}
}

// Signal sends a signal to every process of the group.
func (g *Group) Signal(signal syscall.Signal) error {
	return syscall.Kill(-g.leader.Process.Pid, signal)
}

// Terminate asks the group to end.
func (g *Group) Terminate() error { return g.Signal(syscall.SIGTERM) }

// Kill ends what is left of the group and releases its lock. It may be called twice.
func (g *Group) Kill() { g.end() }
