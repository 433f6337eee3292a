package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/internal/testcluster"
	"golang.org/x/sys/unix"
)

// loops reports whether this machine lets us attach a file to a loop device, which is most of what a disk needs.
func loops(t *testing.T) bool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	device, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).Output()
	if err != nil {
		return false
	}
	if err := command("losetup", "--detach", strings.TrimSpace(string(device))); err != nil {
		t.Fatal(err)
	}
	return true
}

// oneDisk returns a disk that lasts as long as the test, or nil where there can be none and the reason was logged.
func oneDisk(t *testing.T) *disk {
	t.Helper()
	disks, err := newDisks(t.TempDir(), 1)
	if !loops(t) {
		if err == nil || len(disks) > 0 {
			t.Errorf("got %d disks and %v where there can be none, want the reason", len(disks), err)
		}
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeDisks(disks); err != nil {
			t.Error(err)
		}
	})
	return disks[0]
}

func TestPowerTakesWhatIsNotSynced(t *testing.T) {
	t.Parallel()
	d := oneDisk(t)
	if d == nil {
		return
	}
	writeDown(t, filepath.Join(d.dir, "synced"), true)
	writeDown(t, filepath.Join(d.dir, "written"), false)
	d.cut()
	if err := os.WriteFile(filepath.Join(d.dir, "late"), nil, 0o600); err == nil {
		t.Error("a disk without power takes what is written")
	}
	for range 2 { // the second time there is nothing to do
		if err := d.on(); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"synced": true, "written": false, "late": false} {
		if _, err := os.Stat(filepath.Join(d.dir, name)); (err == nil) != want {
			t.Errorf("%s: got %v, want that it is there: %v", name, err, want)
		}
	}
}

func TestAFullDiskTakesNothingUntilItIsFreed(t *testing.T) {
	t.Parallel()
	d := oneDisk(t)
	if d == nil {
		return
	}
	file := filepath.Join(d.dir, "file")
	d.fill()
	if err := os.WriteFile(file, make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want that there is no space", err)
	}
	d.free()
	if err := errors.Join(os.WriteFile(file, make([]byte, 64<<10), 0o600), d.on()); err != nil {
		t.Error(err)
	}
}

// writeDown makes a file, and says so to its folder if it is to be synced.
func writeDown(t *testing.T, path string, synced bool) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if !synced {
		return
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestPowerLossNeedsSupportedDisk(t *testing.T) {
	t.Parallel()
	d := &disk{dir: filepath.Join(t.TempDir(), "missing")}
	d.cut()
	if err := d.on(); err == nil || !strings.Contains(err.Error(), "cut the power") {
		t.Errorf("got %v, want why its power could not be cut", err)
	}
}

func TestNoDisksAreBetterThanOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, testcluster.Name(testcluster.NATS, 1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	disks, err := newDisks(dir, 2)
	if err == nil || len(disks) > 0 {
		t.Errorf("got %d disks and %v, want none and the reason", len(disks), err)
	}
	if runtime.GOOS != "linux" {
		return // no disks can be made, and the mounts cannot be read
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("%v: a disk stays behind in\n%s", err, mounts)
	}
}
