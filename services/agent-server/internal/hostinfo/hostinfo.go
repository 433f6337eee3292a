// Package hostinfo describes the machine of an agent-server.
package hostinfo

import (
	"os"
	"runtime"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

const giga = 1 << 30

// Describe describes this machine.
func Describe() remoteagent.Machine {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return remoteagent.Machine{Hostname: name, OS: runtime.GOOS, CPUs: runtime.NumCPU(), MemoryGB: round(memory())}
}

// DiskFree returns the free gigabytes of the file system that contains path, or an error if they are unknown.
func DiskFree(path string) (float64, error) {
	bytes, err := free(path)
	return round(bytes), err
}

// round returns gigabytes with one decimal.
func round(bytes uint64) float64 { return float64(bytes*10/giga) / 10 }
