package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/sandbox"
)

// cgroup makes a cgroup as a supervisor delegates one, and returns its folder and its controllers.
func cgroup(t *testing.T) (dir string, controllers []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		_ = os.WriteFile(filepath.Join(fields[1], "cgroup.subtree_control"), []byte("+memory +pids"), 0) // where it has them
		dir, err := os.MkdirTemp(fields[1], "agentbus-test-")                                            //nolint:usetesting // a folder of the cgroup file system
		if err != nil {
			t.Skipf("this user may not make a cgroup: %v", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("a program has left its cgroup: %v", err)
			}
		})
		has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			t.Fatal(err)
		}
		return dir, strings.Fields(string(has))
	}
	t.Skip("no cgroup of version 2 is mounted")
	return "", nil
}

// TestAProgramHasACgroupOfItsOwn makes programs in a delegated cgroup, and where that has no controllers, shows that they are
// not run without limits.
func TestAProgramHasACgroupOfItsOwn(t *testing.T) {
	dir, controllers := cgroup(t)
	limits := sandbox.Limits{Memory: 64 << 20, Processes: 8}
	p := sandbox.Policy{Cgroup: dir, Limits: limits}
	report, err := p.Probe(t.Context(), "sh")
	for _, name := range []string{"memory", "pids"} {
		if !slices.Contains(controllers, name) {
			if err == nil || !strings.Contains(err.Error(), "has no controller "+name) {
				t.Fatalf("got %v, want an error that names the controller %s", err, name)
			}
			return
		}
	}
	if err != nil || !report.Cgroup {
		t.Fatalf("got %+v, %v; want a cgroup", report, err)
	}
	tests := []struct{ name, script, want string }{
		{"its cgroup", "cut -d: -f3 /proc/self/cgroup | grep -c program-", "1"},
		{"processes", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done 2>&1; wait", "fork"},
		{"memory of all processes together", "for i in 1 2 3 4; do head -c 30000000 /dev/zero | tail & done; wait; echo all", ""},
		{"files in memory", "head -c 60000000 /dev/zero > /tmp/x && cat /tmp/x /tmp/x | tail -c 30000000 | tail | wc -c", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := run(t, p, test.script)
			if test.want != "" && !strings.Contains(got, test.want) || test.want == "" && err == nil {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// TestTheCgroupOfAProgramIsRemoved needs no controller.
func TestTheCgroupOfAProgramIsRemoved(t *testing.T) {
	dir, _ := cgroup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	own, err := sandbox.JoinCgroup(ctx, dir, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || !hasFolder(left) {
		t.Fatalf("got no cgroup in %s, %v", dir, err)
	}
	text, err := os.ReadFile(filepath.Join("/proc", own, "cgroup"))
	if err != nil || !strings.Contains(string(text), filepath.Base(dir)+"/program-") {
		t.Errorf("got %q, %v; want the program in a cgroup of its own", text, err)
	}
	cancel()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left, err := os.ReadDir(dir)
		if err == nil && !hasFolder(left) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got a cgroup that is left in %s, %v", dir, err)
		}
	}
}

func hasFolder(entries []os.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() })
}

func TestACgroupThatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{t.TempDir(): "is not a cgroup of version 2", "/no/such/cgroup": "no such file"} {
		_, err := sandbox.Policy{Cgroup: dir}.Probe(t.Context(), "sh")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
	}
}
