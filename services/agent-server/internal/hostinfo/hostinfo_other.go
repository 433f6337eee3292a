//go:build !linux

package hostinfo

import (
	"errors"
	"runtime"
)

func memory() uint64 { return 0 }

func free(string) (uint64, error) {
	return 0, errors.New("the free space of a disk is not known on " + runtime.GOOS)
}
