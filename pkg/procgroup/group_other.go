//go:build !unix

package procgroup

import (
	"context"
	"os/exec"
)

// Group is a program without a group: on systems without groups, only the program itself is ended.
type Group struct{ cmd *exec.Cmd }

// Lock has no effect on this system.
type Lock struct{}

// Acquire returns a lock that excludes no other process.
func Acquire(context.Context, ...string) (*Lock, error) { return &Lock{}, nil }

// Release does nothing.
func (*Lock) Release() {}

// New returns a group.
func New(*Lock) (*Group, error) { return &Group{}, nil }

// Join has a command run in the group.
func (g *Group) Join(cmd *exec.Cmd) { g.cmd = cmd }

// Terminate ends the program.
func (g *Group) Terminate() error { return g.cmd.Process.Kill() }

// Kill ends the program.
func (g *Group) Kill() {
	if g.cmd != nil && g.cmd.Process != nil {
		_ = g.cmd.Process.Kill() // fails when it has ended
	}
}
