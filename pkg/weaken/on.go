//go:build chaos

package weaken

import (
	"os"
	"syscall"
	"time"
)

// Without reports whether the program goes without a safeguard.
func Without(s Safeguard) bool { return os.Getenv("AGENTBUS_WEAKEN") == string(s) }

// MachineTime is the time of the machine, also in a program whose wall clock is shifted: see pkg/skew.
func MachineTime() time.Time {
	var t syscall.Timeval
	if err := syscall.Gettimeofday(&t); err != nil {
		return time.Now()
	}
	return time.Unix(t.Unix())
}
