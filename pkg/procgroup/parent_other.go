//go:build !linux

package procgroup

import "syscall"

// EndWithParent does nothing: only Linux ends a process with its parent.
func EndWithParent(*syscall.SysProcAttr) {}
