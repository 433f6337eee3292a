package testcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/pkg/procgroup"
)

// StopWait is how long [Process.Stop] waits for the end of a process. It is longer than the grace period of a service.
const StopWait = 40 * time.Second

// tailSize is how much of a log an error contains.
const tailSize = 2000

// Command describes a process.
type Command struct {
	Kind   Kind
	Name   string // differs from the names of the other processes of the cluster
	Path   string
	Args   []string
	Env    []string // in addition to PATH and HOME
	Dir    string   // working directory and HOME
	LogDir string   // where <Name>.log is the output; "" = Dir
	User   *syscall.Credential
	Term   syscall.Signal // requests an orderly end; 0 = SIGTERM

	Addr  string                      // host:port for clients
	Admin string                      // URL of the monitor of NATS, or of the admin server of a service; "" = none
	Ready func(context.Context) error // returns nil if the process can be used; nil = as soon as it has started
}

// Process is a child process, which can be started several times. It ends with this process at the latest. It is safe for
// concurrent use.
type Process struct {
	Command

	mu    sync.Mutex
	cmd   *exec.Cmd     // of the newest start; nil = none
	ended chan struct{} // closed when cmd has ended
}

// NewProcess returns a process that was not started.
func NewProcess(c Command) *Process {
	if c.Term == 0 {
		c.Term = syscall.SIGTERM
	}
	return &Process{Command: c}
}

// Start starts the process and waits until it is ready. It returns an error with the end of the log if the process ends
// before. The caller stops the process in either case.
func (p *Process) Start(ctx context.Context) error {
	ended, err := p.Spawn()
	if err != nil || p.Ready == nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with ctx, at the latest at the end of this function
		select {
		case <-ended:
			cancel(errors.New("the process has ended"))
		case <-ctx.Done():
		}
	}()
	if err := Await(ctx, p.Ready); err != nil {
		return fmt.Errorf("%s is not ready: %w\n%s", p.Name, err, p.Tail())
	}
	return nil
}

// Spawn starts the process, with env in addition to its environment, and does not wait until it is ready. The channel is
// closed when the process has ended.
func (p *Process) Spawn(env ...string) (ended <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	output, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", p.Name, err)
	}
	defer func() { _ = output.Close() }()  // the child has its own descriptor
	cmd := exec.Command(p.Path, p.Args...) //nolint:gosec,noctx // a program of the cluster; Stop ends it
	cmd.Dir = p.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Dir}, append(slices.Clip(p.Env), env...)...)
	cmd.Stdout, cmd.Stderr = output, output
	// A process group of its own: a terminal does not send its signals to it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.User}
	procgroup.EndWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	done := make(chan struct{})
	p.cmd, p.ended = cmd, done
	go func() { // ends with the process
		_ = cmd.Wait() // the log has the reason
		close(done)
	}()
	return done, nil
}

// LogFile is the path of the output of all starts.
func (p *Process) LogFile() string { return filepath.Join(cmp.Or(p.LogDir, p.Dir), p.Name+".log") }

// Log returns the output of all starts.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the end of the log.
func (p *Process) Tail() string {
	text := p.Log()
	return text[max(0, len(text)-tailSize):]
}

// PID returns the id of the process; 0 if it is not running.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	select {
	case <-p.ended:
		return 0
	default:
		return p.cmd.Process.Pid
	}
}

// Signal sends a signal. It does nothing if the process is not running.
func (p *Process) Signal(signal os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(signal) // fails only if the process has ended
	}
}

// Wait waits for the end of the process for at most limit, and reports whether it has ended.
func (p *Process) Wait(limit time.Duration) bool {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if ended == nil {
		return true // it was never started
	}
	select {
	case <-ended:
		return true
	default:
	}
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// Stop requests an orderly end, and kills the process if it takes longer than [StopWait].
func (p *Process) Stop() { p.End(p.Term, StopWait) }

// Kill ends the process immediately, as a crash does.
func (p *Process) Kill() { p.End(syscall.SIGKILL, StopWait) }

// End sends a signal that ends the process, and kills the process if it is still running after grace.
func (p *Process) End(signal os.Signal, grace time.Duration) {
	p.Signal(signal)
	if !p.Wait(grace) {
		p.Signal(syscall.SIGKILL)
		p.Wait(StopWait) // bounded: the kernel ends a process in uninterruptible sleep later
	}
}
