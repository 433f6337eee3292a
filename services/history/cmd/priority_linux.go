package main

import (
	"log/slog"
	"os"
	"strconv"
	"syscall"
)

// niceness lowers the priority of history on a shared machine: it copies, in bursts, data that is already safe in the
// log, while other services have waiting clients.
const niceness = 10

// lowerPriority lowers the priority of the process: of each of its threads, whose children inherit it.
func lowerPriority() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		slog.Debug("history keeps its priority", "error", err)
		return
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness)
		}
		if err != nil {
			slog.Debug("a thread of history keeps its priority", "osThread", t.Name(), "error", err)
		}
	}
}
