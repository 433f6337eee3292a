package sandbox_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/agentbus/agentbus/pkg/sandbox"
	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// attackVariable makes the test binary a program that tries system calls and prints how each of them ended.
const attackVariable = "SANDBOX_ATTACK"

// high is set in arguments of which the kernel reads 32 bits.
const high = 1 << 32

// attempts are system calls that must fail in a sandbox as the table says, whatever else they need.
func attempts() []struct {
	name string
	call [4]uintptr
	want unix.Errno
} {
	return []struct {
		name string
		call [4]uintptr
		want unix.Errno
	}{
		{"a user namespace by unshare", [4]uintptr{unix.SYS_UNSHARE, unix.CLONE_NEWUSER}, unix.EPERM},
		{"nothing by unshare", [4]uintptr{unix.SYS_UNSHARE}, unix.EPERM},
		{"a user namespace by clone", [4]uintptr{unix.SYS_CLONE, unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}, unix.EPERM},
		{"a process by clone3", [4]uintptr{unix.SYS_CLONE3}, unix.ENOSYS},
		{"a namespace by setns", [4]uintptr{unix.SYS_SETNS, 0, 0}, unix.EPERM},
		{"a mount", [4]uintptr{unix.SYS_MOUNT}, unix.EPERM},
		{"a mount by the newer calls", [4]uintptr{unix.SYS_FSOPEN}, unix.EPERM},
		{"a copy of a mount", [4]uintptr{unix.SYS_OPEN_TREE}, unix.EPERM},
		{"a root", [4]uintptr{unix.SYS_PIVOT_ROOT}, unix.EPERM},
		{"keys", [4]uintptr{unix.SYS_KEYCTL}, unix.EPERM},
		{"a key", [4]uintptr{unix.SYS_ADD_KEY}, unix.EPERM},
		{"a request of a key", [4]uintptr{unix.SYS_REQUEST_KEY}, unix.EPERM},
		{"bpf", [4]uintptr{unix.SYS_BPF, 99}, unix.EPERM},
		{"perf", [4]uintptr{unix.SYS_PERF_EVENT_OPEN}, unix.EPERM},
		{"page faults", [4]uintptr{unix.SYS_USERFAULTFD, 1}, unix.EPERM},
		{"a ring", [4]uintptr{unix.SYS_IO_URING_SETUP}, unix.EPERM},
		{"calls of a ring", [4]uintptr{unix.SYS_IO_URING_ENTER, 99}, unix.EPERM},
		{"buffers of a ring", [4]uintptr{unix.SYS_IO_URING_REGISTER, 99}, unix.EPERM},
		{"a tracer", [4]uintptr{unix.SYS_PTRACE, unix.PTRACE_TRACEME}, unix.EPERM},
		{"memory of a process", [4]uintptr{unix.SYS_PROCESS_VM_READV}, unix.EPERM},
		{"a kernel", [4]uintptr{unix.SYS_KEXEC_LOAD}, unix.EPERM},
		{"a module", [4]uintptr{unix.SYS_INIT_MODULE}, unix.EPERM},
		{"a socket to the machine's host", [4]uintptr{unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM}, unix.EPERM},
		{"the same with more bits", [4]uintptr{unix.SYS_SOCKET, high | unix.AF_VSOCK, unix.SOCK_STREAM}, unix.EPERM},
		{"ciphers of the kernel", [4]uintptr{unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET}, unix.EPERM},
		{"input of a terminal", [4]uintptr{unix.SYS_IOCTL, 99, unix.TIOCSTI}, unix.EPERM},
		{"the same with more bits", [4]uintptr{unix.SYS_IOCTL, 99, high | unix.TIOCSTI}, unix.EPERM},
		{"another command of a terminal", [4]uintptr{unix.SYS_IOCTL, 99, unix.TIOCGWINSZ}, unix.EBADF},
		{"shared memory of System V", [4]uintptr{unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096, 0o600}, unix.ENOSYS},
		{"a file in memory", [4]uintptr{unix.SYS_MEMFD_CREATE}, unix.ENOSYS},
		{"a call that is not there yet", [4]uintptr{4000}, unix.ENOSYS},
	}
}

// sharedSize is more than the address space that the Go runtime reserves.
const sharedSize = 8 << 30

// attack tries the system calls, or to map shared memory.
func attack(what string) {
	runtime.LockOSThread()
	if what == "shared" {
		_, _, got := unix.RawSyscall6(unix.SYS_MMAP, 0, sharedSize, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, high-1, 0)
		fmt.Printf("shared: %d", got) //nolint:forbidigo // what the program is for
		return
	}
	for _, a := range attempts() {
		_, _, got := unix.RawSyscall(a.call[0], a.call[1], a.call[2], a.call[3])
		fmt.Printf("%s: %d\n", a.name, got) //nolint:forbidigo // what the program is for
	}
}

// policies are the two kinds of sandbox; both refuse system calls.
func policies() map[string]sandbox.Policy {
	return map[string]sandbox.Policy{"with namespaces": {}, "with limits alone": {Bare: true}}
}

func TestSystemCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	self := copyOfThisBinary(t)
	var want strings.Builder
	for _, a := range attempts() {
		fmt.Fprintf(&want, "%s: %d\n", a.name, a.want)
	}
	for name, p := range policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.Read = []string{self}
			got, err := run(t, p, attackVariable+"=1 exec "+self)
			if err != nil || got+"\n" != want.String() {
				t.Errorf("got %v and\n%s\nwant\n%s", err, got, want.String())
			}
		})
	}
}

// copyOfThisBinary returns the path of a copy that every user may run.
func copyOfThisBinary(t *testing.T) string {
	t.Helper()
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder(t), "self")
	writeProgram(t, path, binary)
	return path
}

// writeProgram writes an executable file. A child that another test forks meanwhile would inherit the open descriptor until it
// calls exec, and a file that is open for writing cannot be executed (ETXTBSY); so forks wait until it is closed.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

// Within a user namespace a program would have every capability there: it could mount file systems of any size and set up
// networks.
func TestAProgramGetsNoNamespaces(t *testing.T) {
	t.Parallel()
	limits := sandbox.Limits{Memory: 256 << 20, FileSize: 8 << 20}
	for name, script := range map[string]string{
		"mounts":  "unshare -Urm true",
		"network": "unshare -Urn true",
		"tmpfs":   "unshare -Urm sh -c 'mount -t tmpfs -o size=10g none /tmp && head -c 300000000 /dev/zero | split -b 5000000 - /tmp/x'",
	} {
		for kind, p := range policies() {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				p.Limits = limits
				got, err := run(t, p, script)
				if err == nil || !strings.Contains(got, "unshare") {
					t.Errorf("got %q, %v; want unshare to fail", got, err)
				}
			})
		}
	}
}

// The filter and the kernel's limit each suffice: this is the second one, on its own.
func TestTheKernelGivesAProgramNoUserNamespaces(t *testing.T) {
	t.Parallel()
	got, err := run(t, sandbox.Policy{}, "cd /proc/sys/user && cat max_user_namespaces && echo 1 > max_user_namespaces")
	if err == nil || !strings.HasPrefix(got, "0\n") {
		t.Errorf("got %q, %v; want 0 that cannot be changed", got, err)
	}
}

func TestAProgramHasNoCapabilitiesToGain(t *testing.T) {
	t.Parallel()
	got, err := run(t, sandbox.Policy{}, "grep -e ^Cap -e ^Seccomp: -e ^NoNewPrivs: /proc/self/status")
	const none = "\t0000000000000000\n"
	if want := "CapInh:" + none + "CapPrm:" + none + "CapEff:" + none + "CapBnd:" + none + "CapAmb:" + none +
		"NoNewPrivs:\t1\nSeccomp:\t2"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// A filter that knows one architecture must not let through the calls of another one that the processor runs too.
func TestAProgramOfAnotherArchitectureDoesNotRun(t *testing.T) {
	t.Parallel()
	const status = 7
	code := []byte{0xb8, 1, 0, 0, 0, 0xbb, status, 0, 0, 0, 0xcd, 0x80} // mov eax, exit; mov ebx, status; int 0x80
	const base, header, segment = 0x10000, 52, 32
	size := uint32(header + segment + len(code))
	program := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0} // 32 bits, an executable, 386
	for _, word := range []uint32{
		1, base + header + segment, header, 0, 0, segment<<16 | header, 1, 0, // one program header, no sections
		1, 0, base, base, size, size, 5, 0x1000, // a segment to load, readable and executable
	} {
		program = binary.LittleEndian.AppendUint32(program, word)
	}
	dir := folder(t)
	writeProgram(t, filepath.Join(dir, "program"), append(program, code...))
	for name, p := range policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.Dir = dir
			got, err := run(t, p, "./program")
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() == status {
				t.Errorf("got %q, %v; want a program that the kernel ends", got, err)
			}
		})
	}
}

func TestTheAddressSpaceBoundsSharedMemory(t *testing.T) {
	t.Parallel()
	self := copyOfThisBinary(t)
	for want, most := range map[string]int64{"shared: 0": 0, fmt.Sprintf("shared: %d", unix.ENOMEM): sharedSize / 2} {
		p := sandbox.Policy{Read: []string{self}, Limits: sandbox.Limits{AddressSpace: most}}
		if got, err := run(t, p, attackVariable+"=shared exec "+self); err != nil || got != want {
			t.Errorf("with at most %d bytes: got %q, %v; want %q", most, got, err, want)
		}
	}
}

// Where the kernel refuses a mechanism, a sandbox that must have all of them cannot be had, and the other kind says which
// it has.
func TestAMechanismThatIsMissing(t *testing.T) {
	t.Parallel()
	noFilter := seccomp.Filter{NoNewPrivs: true, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{{
			Action: seccomp.ActionErrno,
			NamesWithCondtions: []seccomp.NameWithConditions{{Name: "prctl", Conditions: seccomp.ArgumentConditions{
				{Operation: seccomp.Equal, Value: unix.PR_SET_SECCOMP},
			}}},
		}},
	}}
	noNamespaces := noFilter
	noNamespaces.Policy.Syscalls = []seccomp.SyscallGroup{{Action: seccomp.ActionErrno, Names: []string{"mount"}}}
	for name, host := range map[string]struct {
		filter seccomp.Filter
		want   string
		bare   bool // whether there is a filter of system calls without namespaces
	}{
		"no filter of system calls": {noFilter, "filter system calls (seccomp): operation not permitted", false},
		"no mounts":                 {noNamespaces, "leave the mounts of the host", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runtime.LockOSThread() // and never unlocked: the thread ends with its filter
			if err := seccomp.LoadFilter(host.filter); err != nil {
				t.Fatal(err)
			}
			if _, err := (sandbox.Policy{}).Probe(t.Context(), "sh"); err == nil || !strings.Contains(err.Error(), host.want) {
				t.Errorf("got %v, want %q", err, host.want)
			}
			cmd, err := sandbox.Policy{}.Command(t.Context(), []string{"echo", "ran"}, []string{"PATH=" + sandbox.Path})
			if err != nil {
				t.Fatal(err)
			}
			if output, err := cmd.CombinedOutput(); !sandbox.Failed(err, output) {
				t.Errorf("got %q, %v; want a program that does not run", output, err)
			}
			got, err := sandbox.Policy{Bare: true}.Probe(t.Context(), "sh")
			if err != nil || got.SystemCalls != host.bare || got.Namespaces || got.UserNamespaces {
				t.Errorf("with limits alone: got %+v, %v", got, err)
			}
		})
	}
}

func TestProbeReportsAllMechanisms(t *testing.T) {
	t.Parallel()
	got, err := sandbox.Policy{}.Probe(t.Context(), "sh")
	if want := (sandbox.Report{Namespaces: true, UserNamespaces: true, Capabilities: true, SystemCalls: true}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// refusal begins the line of a test that says that this host gives its user no sandboxes.
const refusal = "no sandboxes here: "

func TestAProgramRunsOnlyWhereASandboxCanBeHad(t *testing.T) {
	t.Parallel()
	_, refused := sandbox.Policy{}.Probe(t.Context(), "echo")
	cmd, err := sandbox.Policy{}.Command(t.Context(), []string{"echo", "ran"}, []string{"PATH=" + sandbox.Path})
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.CombinedOutput()
	if (refused == nil) != (err == nil) || (err == nil) != (string(output) == "ran\n") {
		t.Errorf("got %q, %v, and of the probe %v", output, err, refused)
	}
	if refused != nil {
		t.Log(refusal, refused)
	}
}

// The tests of this package run as root in most containers; this one runs those of the sandbox as another user too. A host that
// gives that user no sandboxes must run nothing.
func TestAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // the tests have run so
	}
	self := copyOfThisBinary(t)
	if output := asAnotherUser(t, self, "AProgramRunsOnlyWhereASandboxCanBeHad"); strings.Contains(output, refusal) {
		return
	}
	asAnotherUser(t, self, "SystemCallsThatAreRefused", "AProgramGetsNoNamespaces", "TheKernelGivesAProgramNoUserNamespaces",
		"AProgramHasNoCapabilitiesToGain", "AMechanismThatIsMissing", "AProgramInheritsNoDescriptors", "ProgramEnvironment", "Probe")
}

func asAnotherUser(t *testing.T, self string, names ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^Test("+strings.Join(names, "|")+")$")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4321, Gid: 4321}}
	output, err := cmd.CombinedOutput()
	for _, name := range names {
		if err != nil || !strings.Contains(string(output), "--- PASS: Test"+name+" ") {
			t.Fatalf("%s: %v\n%s", name, err, output)
		}
	}
	return string(output)
}
