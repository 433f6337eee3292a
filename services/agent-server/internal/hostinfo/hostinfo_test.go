package hostinfo_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/services/agent-server/internal/hostinfo"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	got := hostinfo.Describe()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got.Hostname != name || got.OS != runtime.GOOS || got.CPUs != runtime.NumCPU() {
		t.Errorf("got %+v, want %s on %s with %d processors", got, name, runtime.GOOS, runtime.NumCPU())
	}
	if runtime.GOOS != "linux" {
		return // the memory is not known
	}
	if want := memTotal(t); got.MemoryGB < want-0.2 || got.MemoryGB > want+0.2 {
		t.Errorf("got %v GB of memory, want %v", got.MemoryGB, want)
	}
}

// memTotal is the memory of the machine in gigabytes, as /proc has it.
func memTotal(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text)) // MemTotal: 123 kB
	kilobytes, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes / (1 << 20)
}

func TestDiskFree(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		if _, err := hostinfo.DiskFree("/"); err == nil {
			t.Error("got no error, want one where the space is not known")
		}
		return
	}
	if free, err := hostinfo.DiskFree(t.TempDir()); err != nil || free <= 0 || free > 1e9 {
		t.Errorf("got %v GB and %v, want some", free, err)
	}
	if free, err := hostinfo.DiskFree(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Errorf("a missing folder: got %v GB, want an error", free)
	}
}
