//go:build !linux

package cluster

import (
	"errors"
	"runtime"
)

// takeSpace fails: a disk needs Linux.
func takeSpace(int) error { return errors.New("a disk cannot be filled on " + runtime.GOOS) }
