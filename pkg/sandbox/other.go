//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"os/exec"
)

var errLinux = errors.New("isolation is supported only on Linux")

func attach(*exec.Cmd, Policy) {}

func delegated(string) error { return errLinux }

func join(context.Context, *exec.Cmd, string, map[string]string) error { return errLinux }

func (l Limits) cgroup() map[string]string { return nil }

func become(order) error { return errLinux }
