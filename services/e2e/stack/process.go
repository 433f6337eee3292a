package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/pkg/procgroup"
)

// stopWait is how long a process may take to end in order: longer than the grace of a service.
const stopWait = 40 * time.Second

// Process is a child process. It may end and be started again. It is safe for concurrent use.
type Process struct {
	Name  string // of the service or server; several processes may have the same
	Admin string // URL of a service's admin server

	command func() *exec.Cmd
	ready   string // URL that answers 200, or host:port that takes connections; "" = nothing to wait for
	log     string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Run starts a process and, unless ready is "", waits until that URL answers 200, or that host:port takes connections.
// env is added to this process's own.
func (s *Stack) Run(ctx context.Context, name, ready string, env []string, command string, args ...string) (*Process, error) {
	p := &Process{Name: name, ready: ready, command: func() *exec.Cmd {
		c := exec.Command(command, args...) //nolint:gosec,noctx // a server of ours; Stop ends it
		c.Env, c.SysProcAttr = append(os.Environ(), env...), &syscall.SysProcAttr{}
		return c
	}}
	return p, s.start(ctx, p)
}

// start starts a process for the first time. Even when that fails, Stop ends it.
func (s *Stack) start(ctx context.Context, p *Process) error {
	s.mu.Lock()
	p.log = filepath.Join(s.options.Dir, fmt.Sprintf("%02d-%s.log", len(s.processes), p.Name))
	s.processes = append(s.processes, p)
	s.mu.Unlock()
	return p.Start(ctx)
}

// Start starts a process that has ended as it was started first, and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	done, err := p.spawn()
	if err != nil || p.ready == "" {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with ctx, so with this function at the latest
		select {
		case <-done:
			cancel(errors.New("it has ended"))
		case <-ctx.Done():
		}
	}()
	wait := waitDial
	if strings.HasPrefix(p.ready, "http://") {
		wait = waitHTTP
	}
	if err := wait(ctx, p.ready); err != nil {
		return fmt.Errorf("%s is not ready: %w\n%s", p.Name, err, p.Log())
	}
	return nil
}

func (p *Process) spawn() (ended <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", p.Name, err)
	}
	defer func() { _ = output.Close() }() // the child has its own handle
	cmd, done := p.command(), make(chan struct{})
	cmd.Stdout, cmd.Stderr = output, output
	procgroup.EndWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() {
		_ = cmd.Wait() // its log has the reason
		close(done)
	}()
	p.cmd, p.done = cmd, done
	return done, nil
}

// Log returns what the process has printed.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Signal sends a signal. One that has ended does not mind.
func (p *Process) Signal(signal os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(signal) // fails only when it has ended
	}
}

// Wait waits for the end of the process for at most limit, and reports whether it has ended.
func (p *Process) Wait(limit time.Duration) bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return true // it never started
	}
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// Stop ends the process in order, or by force when it takes too long.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	if !p.Wait(stopWait) {
		p.Kill()
	}
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.Wait(stopWait)
}
