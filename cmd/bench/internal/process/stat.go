// Package process reads the processor time and memory of processes from /proc. It is for Linux.
package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc: Linux reports them in hundredths of a second, independent of the kernel's clock.
const tick = 10 * time.Millisecond

// Self returns the processor time that this process has used.
func Self() (time.Duration, error) { return CPU(os.Getpid()) }

// CPU returns the processor time that a process has used, user and system time together.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(text))
}

// parseCPU parses /proc/<pid>/stat. The name in parentheses may contain blanks and parentheses.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const user, system = 11, 12 // counted from the field after the name
	if len(fields) <= system {
		return 0, fmt.Errorf("stat has %d fields after the name: %.80q", len(fields), stat)
	}
	u, errUser := strconv.ParseInt(fields[user], 10, 63)
	s, errSystem := strconv.ParseInt(fields[system], 10, 63)
	if errUser != nil || errSystem != nil {
		return 0, fmt.Errorf("stat has times %q and %q", fields[user], fields[system])
	}
	return time.Duration(u+s) * tick, nil
}

// RSS returns the memory of a process, in bytes.
func RSS(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm is %.80q", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("statm: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// PeakRSS returns the highest memory of a process since its start, in bytes.
func PeakRSS(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parsePeak(string(text))
}

// parsePeak parses /proc/<pid>/status.
func parsePeak(status string) (int64, error) {
	_, rest, _ := strings.Cut(status, "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0, fmt.Errorf("status has no VmHWM in %.80q: %w", rest, err)
	}
	return kilobytes << 10, nil
}

// LoadAverage returns the averages of the last one, five and fifteen minutes from /proc/loadavg.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
