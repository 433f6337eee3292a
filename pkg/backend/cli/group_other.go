//go:build !unix

package cli

import (
	"os"
	"os/exec"
)

// ownGroup does nothing where there are no groups.
func ownGroup(*exec.Cmd) {}

// endGroup ends the program.
func endGroup(p *os.Process) error { return p.Kill() }

// killGroup does nothing: what the program has started goes on.
func killGroup(*os.Process) {}
