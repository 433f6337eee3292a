//go:build !chaos

package weaken

import "time"

// Without reports whether the program goes without a safeguard: this one never does.
func Without(Safeguard) bool { return false }

// MachineTime is the time of the machine.
func MachineTime() time.Time { return time.Now() }
