// Package sandbox runs an untrusted program: as a separate user, in separate namespaces, where it sees a few folders of
// the system, no network and no other process, under limits that the kernel enforces.
//
// The program of this process starts itself a second time, in new namespaces, and [Enter], the first line of its main
// function, then builds the sandbox around itself and executes the requested program. So nothing needs to be installed,
// and neither root nor a daemon is needed if the kernel permits namespaces to all users.
package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Policy is what a program may do.
type Policy struct {
	Dir      string   `json:"dir,omitzero"` // folder of the host that it runs in, as /work; "" = an empty one
	Writable bool     `json:"writable,omitzero"`
	Read     []string `json:"read,omitzero"` // readable folders and files, in addition to those of the system
	Bare     bool     `json:"bare,omitzero"` // without namespaces, and with as much of the rest as the kernel gives
	Limits   Limits   `json:"limits"`
	// Cgroup is the folder of a cgroup of version 2 that is delegated to this process. Each program gets a new cgroup
	// in it, which limits the memory and the processes of the program as a whole; "" = none.
	Cgroup string `json:"-"`
}

// Limits bound each process of a program, except that Processes bounds all of them together. In a cgroup Memory does so too,
// shared memory and the files in /tmp included.
type Limits struct {
	CPU    time.Duration `json:"-"`      // 0 = 60 s; whole seconds count
	Memory int64         `json:"memory"` // bytes of private data; 0 = 1 GiB
	// AddressSpace is bytes of all that is mapped, shared memory included; 0 = no limit: runtimes such as that of Node reserve
	// far more than they use.
	AddressSpace int64 `json:"addressSpace,omitzero"`
	FileSize     int64 `json:"fileSize"`  // bytes; 0 = 64 MiB
	Processes    int   `json:"processes"` // 0 = 64
}

func (l Limits) withDefaults() Limits {
	return Limits{
		CPU: cmp.Or(l.CPU, time.Minute), Memory: cmp.Or(l.Memory, 1<<30), FileSize: cmp.Or(l.FileSize, 64<<20),
		Processes: cmp.Or(l.Processes, 64), AddressSpace: l.AddressSpace,
	}
}

// order is the configuration of a process that becomes a sandbox.
type order struct {
	Policy

	Seconds int64 `json:"seconds"`        // of the processor: Limits.CPU
	Probe   bool  `json:"probe,omitzero"` // build it, look whether the program is there, and end
}

// variable carries the order.
const variable = "AGENTBUS_SANDBOX"

// failed is the exit status of a process that has not become a sandbox. It says why on its standard error.
const failed = 125

const (
	prefix = "sandbox: "
	ready  = "sandbox ready "
	// closing is how long a program's output may stay open after its end.
	closing = 500 * time.Millisecond
)

// Enter becomes the sandbox and then the program, in a process that was started for that; in any other it does nothing.
// It is the first line of main.
func Enter() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = become(o)
	}
	fmt.Fprintln(os.Stderr, prefix+err.Error())
	os.Exit(failed)
}

// Command is a command for a program in a sandbox. When ctx is done, the program and all that it has started are killed, and
// its cgroup is removed: ctx must end after the program has.
func (p Policy) Command(ctx context.Context, argv, environ []string) (*exec.Cmd, error) {
	return order{Policy: p}.command(ctx, argv, environ)
}

func (o order) command(ctx context.Context, argv, environ []string) (*exec.Cmd, error) {
	if os.Getenv(variable) != "" {
		return nil, errors.New("this program cannot start sandboxes: its main function does not begin with sandbox.Enter")
	}
	o.Limits = o.Limits.withDefaults()
	o.Seconds = max(1, int64(o.Limits.CPU.Seconds()))
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("order a sandbox: %w", err)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env = argv, slices.Concat(environ, []string{variable + "=" + string(text)})
	cmd.WaitDelay = closing
	attach(cmd, o.Policy)
	if o.Cgroup == "" {
		return cmd, nil
	}
	return cmd, join(ctx, cmd, o.Cgroup, o.Limits.cgroup())
}

// Report says which mechanisms hold a program. Limits of processes, no_new_privs and closed descriptors always do.
type Report struct {
	Namespaces     bool `json:"namespaces"`     // new ones for users, mounts, processes, network, IPC, host name
	UserNamespaces bool `json:"userNamespaces"` // the kernel gives it no user namespaces
	Capabilities   bool `json:"capabilities"`   // it has none, and its bounding set is empty
	SystemCalls    bool `json:"systemCalls"`    // a seccomp filter refuses it those that tools do not need
	Cgroup         bool `json:"-"`              // a cgroup limits memory and processes of the program as a whole
}

// LogValue implements [slog.LogValuer]: a log says of each mechanism whether it is on.
func (r Report) LogValue() slog.Value {
	state := func(name string, on bool) slog.Attr {
		if on {
			return slog.String(name, "on")
		}
		return slog.String(name, "off")
	}
	return slog.GroupValue(
		state("namespaces", r.Namespaces), state("userNamespacesDenied", r.UserNamespaces),
		state("capabilitiesDropped", r.Capabilities), state("systemCallFilter", r.SystemCalls),
		state("noNewPrivileges", true), state("processLimits", true), state("cgroupLimits", r.Cgroup),
	)
}

// Probe builds a sandbox, looks for a program in it, and reports what holds it. An error says why that cannot be: without
// Policy.Bare also that one of the mechanisms is not available.
func (p Policy) Probe(ctx context.Context, program string) (Report, error) {
	if p.Cgroup != "" {
		if err := delegated(p.Cgroup); err != nil {
			return Report{}, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, err := order{Policy: p, Probe: true}.command(ctx, []string{program}, []string{"PATH=" + Path})
	if err != nil {
		return Report{}, err
	}
	output, err := cmd.CombinedOutput()
	var enforced Report
	if text, ok := bytes.CutPrefix(output, []byte(ready)); ok && err == nil && json.Unmarshal(text, &enforced) == nil {
		enforced.Cgroup = p.Cgroup != ""
		return enforced, nil
	}
	return Report{}, fmt.Errorf("a sandbox for %s cannot be had: %s", program, Reason(err, output))
}

// Path is where programs are looked for.
const Path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// Failed reports whether a command ended because it could not become a sandbox.
func Failed(err error, output []byte) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == failed && len(output) >= len(prefix) && string(output[:len(prefix)]) == prefix
}

// Reason says why a command could not become a sandbox.
func Reason(err error, output []byte) string {
	if Failed(err, output) {
		return strings.TrimSuffix(string(output[len(prefix):]), "\n")
	}
	if err != nil {
		return err.Error()
	}
	return "this program's main function does not begin with sandbox.Enter"
}
