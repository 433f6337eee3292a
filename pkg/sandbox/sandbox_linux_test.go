package sandbox_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Enter()
	if what := os.Getenv(attackVariable); what != "" {
		attack(what)
		return
	}
	os.Exit(m.Run())
}

// run runs a shell script in a sandbox and gives all that it printed.
func run(t *testing.T, p sandbox.Policy, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd, err := p.Command(ctx, []string{"sh", "-c", script}, []string{"PATH=" + sandbox.Path})
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.CombinedOutput()
	if sandbox.Failed(err, output) {
		t.Fatal(sandbox.Reason(err, output))
	}
	return strings.TrimSpace(string(output)), err
}

// folder is a folder that anyone may look into, with a file in it.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandbox-") //nolint:usetesting // its parents must be open to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of no use to anyone
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("seen"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestProgramEnvironment(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	tests := []struct{ name, script, want string }{
		{"a user of its own", "id -u; id -g; id -G", "65534\n65534\n65534"},
		{"no capabilities", "grep Cap[PE] /proc/self/status", "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000"},
		{"no other process", "set -- /proc/[0-9]*; echo $#", "1"}, // the shell
		{"no network but its own loopback", "grep : /proc/net/dev | cut -d: -f1", "lo"},
		{"no environment of the host", "env | grep -c -v -e ^PWD= -e ^PATH= -e ^_= -e ^SHLVL=", "0"},
		{"nothing of the host except the system", "cd /; echo [a-km-z]*", "bin dev etc proc sbin tmp usr work"},
		{"nothing of how the system is set up", "cat /etc/shadow /etc/hosts 2>&1 | grep -c 'No such'", "2"},
		{"its folder", "pwd; cat file", "/work\nseen"},
		{"a root that cannot be written", "touch /x /usr/x /etc/x 2>&1 | grep -c 'Read-only'", "3"},
		{"a place for temporary files", "echo x > /tmp/x && cat /tmp/x", "x"},
		{"random numbers", "head -c 4 /dev/urandom | wc -c", "4"},
		{"no way to mount", "mount -t tmpfs none /tmp 2>/dev/null && echo mounted || echo no", "no"},
		{"no way to more rights", "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := run(t, sandbox.Policy{Dir: dir}, test.script) // some of the scripts end with a failure, as they should
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// inherited is a descriptor of the host's root that programs inherit, as a shell or a supervisor leaves one to the service.
func inherited(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_DIRECTORY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) }) // nothing was written
	return fd
}

func TestAProgramInheritsNoDescriptors(t *testing.T) {
	t.Parallel()
	fd := strconv.Itoa(inherited(t))
	for name, p := range map[string]sandbox.Policy{"with namespaces": {}, "with limits alone": {Bare: true, Dir: "/"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The shell opens none of its own here; ls opens the folder that it lists.
			got, err := run(t, p, "ls /proc/self/fd; ls /proc/self/fd/"+fd+"/ 2>/dev/null && echo seen; true")
			if err != nil || got != "0\n1\n2\n3" {
				t.Errorf("got %q, %v; want the standard descriptors and that of ls", got, err)
			}
		})
	}
}

func TestItsFolder(t *testing.T) {
	t.Parallel()
	dir, beside := folder(t), folder(t)
	if got, err := run(t, sandbox.Policy{Dir: dir}, "echo x > new"); err == nil {
		t.Errorf("wrote: %q", got)
	}
	if got, err := run(t, sandbox.Policy{Dir: dir, Writable: true}, "echo x > new"); err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(text) != "x\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if got, err := run(t, sandbox.Policy{}, "pwd; ls; echo x > new && cat new"); err != nil || got != "/work\nx" {
		t.Errorf("without a folder: got %q, %v", got, err)
	}
	if got, err := run(t, sandbox.Policy{Read: []string{beside}}, "cat "+beside+"/file; touch "+beside+"/x || echo no"); err != nil || !strings.HasPrefix(got, "seen") || !strings.HasSuffix(got, "no") {
		t.Errorf("a folder to read: got %q, %v", got, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	limits := sandbox.Limits{CPU: time.Second, Memory: 64 << 20, FileSize: 1 << 20, Processes: 8}
	for name, script := range map[string]string{
		"processor time":    "while :; do :; done",
		"memory":            "head -c 200000000 /dev/zero | tail | wc -c | grep -q 200000000",
		"the size of files": "head -c 2000000 /dev/zero > /tmp/x",
		"processes":         "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done; wait",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			if got, err := run(t, sandbox.Policy{Limits: limits}, script); err == nil && !strings.Contains(got, "fork") {
				t.Errorf("it went well: %q", got)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestAllOfItIsKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd, err := sandbox.Policy{Dir: dir, Writable: true}.Command(ctx,
		[]string{"sh", "-c", "setsid sh -c 'while :; do echo x >> alive; sleep 0.05; done' & echo begun; wait"}, []string{"PATH=" + sandbox.Path})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "alive"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for size() == 0 {
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("got nil of a program that was killed")
	}
	before := size()
	<-time.After(300 * time.Millisecond)
	if after := size(); after != before {
		t.Error("what it had started in a session of its own lives on")
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"sh": "", "no-such-program": "executable file not found", "/root/program": "no such file",
	} {
		_, err := sandbox.Policy{}.Probe(t.Context(), program)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", program, err, want)
		}
	}
	_, err := sandbox.Policy{Dir: "/no/such/folder"}.Probe(t.Context(), "sh")
	if err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("got %v", err)
	}
}

func TestBare(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	got, err := run(t, sandbox.Policy{Bare: true, Dir: dir, Limits: sandbox.Limits{FileSize: 1000}}, "id -u; cat file; head -c 2000 /dev/zero > /var/tmp/sandbox-bare-$$; grep NoNewPrivs /proc/self/status")
	user := "65534" // where this process may choose
	if os.Geteuid() != 0 {
		user = strconv.Itoa(os.Geteuid())
	}
	if !strings.HasPrefix(got, user+"\nseen") || !strings.Contains(got, "NoNewPrivs:\t1") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestProgramThatReportsNoSandbox(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{"sandbox: ": "", "sandbox: no\n": "no", "sandbox: no": "no", "other": "exit status 125"} {
		output := []byte(said)
		err := exec.CommandContext(t.Context(), "sh", "-c", "exit 125").Run()
		if got := sandbox.Reason(err, output); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
}
