// Package hostinfo tells what an agent-server runs on.
package hostinfo

import (
	"os"
	"runtime"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

const giga = 1 << 30

// Describe tells what this machine is.
func Describe() remoteagent.Machine {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return remoteagent.Machine{Hostname: name, OS: runtime.GOOS, CPUs: runtime.NumCPU(), MemoryGB: round(memory())}
}

// DiskFree is how many gigabytes are free where path lies; an error says that nobody knows.
func DiskFree(path string) (float64, error) {
	bytes, err := free(path)
	return round(bytes), err
}

// round gives gigabytes with one digit behind the point.
func round(bytes uint64) float64 { return float64(bytes*10/giga) / 10 }
