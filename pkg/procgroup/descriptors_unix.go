//go:build unix

package procgroup

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// closeOnExec keeps the descriptors that this process inherited from the programs that child processes: those that the Go
// runtime opens have the flag already, and the standard ones and [exec.Cmd.ExtraFiles] of a child lose it when it starts.
func closeOnExec() error {
	const first = 3 // after the standard ones
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("list the descriptors of this process: %w", err)
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
