package cluster

import (
	"errors"

	"golang.org/x/sys/unix"
)

// takeSpace makes a file so large that nothing more can be added to it, in halves of what its file system says is left.
func takeSpace(file int) error {
	var left unix.Statfs_t
	if err := unix.Fstatfs(file, &left); err != nil {
		return err
	}
	end := int64(0)
	for size := int64(left.Bfree) * left.Bsize; size > 0; { //nolint:gosec // it is less than diskSize
		switch err := unix.Fallocate(file, 0, end, size); {
		case err == nil:
			end += size
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		default:
			return err
		}
	}
	return nil
}
