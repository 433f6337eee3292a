package service

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is how much of its cgroup's memory a process gives to the Go runtime: the rest is for what the runtime does
// not count, such as SQLite's pages and the stacks of threads.
const memoryShare = 0.9

// limitMemory makes the garbage collector work harder before the process comes to the limit of its cgroup (version 1 or
// 2), where the kernel would kill it. An explicit GOMEMLIMIT is left alone.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := cgroupMemory(os.DirFS("/"))
	if limit == math.MaxInt64 {
		return
	}
	debug.SetMemoryLimit(int64(memoryShare * float64(limit)))
	log.Debug("memory is limited by the cgroup", "bytes", limit)
}

// cgroupMemory returns the lowest memory limit of the process's cgroup and its parents, in bytes; math.MaxInt64 without
// a limit. System is the root of the file system.
func cgroupMemory(system fs.FS) int64 {
	limit := int64(math.MaxInt64)
	groups, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return limit // not Linux, or not permitted
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		switch {
		case fields[0] == "0" && fields[1] == "":
		case strings.Contains(","+fields[1]+",", ",memory,"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's, of which only the root is mounted.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			limit = min(limit, readLimit(system, path.Join(mount, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// readLimit reads one limit. "max", and the value of version 1 for "unlimited", mean no limit.
func readLimit(system fs.FS, name string) int64 {
	const none = 1 << 62
	text, err := fs.ReadFile(system, name)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 || n > none {
		return math.MaxInt64
	}
	return n
}
