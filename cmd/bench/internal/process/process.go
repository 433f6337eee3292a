// Package process starts the processes that the benchmark measures, and reads from /proc what they cost. It is for
// Linux.
package process

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/pkg/procgroup"
)

// Process is one that runs.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// Command is what to start.
type Command struct {
	Name string
	Path string
	Args []string
	Env  []string // besides PATH; "name=value"
	Dir  string   // where it runs, and where <name>.log holds what it prints
}

// Start starts a process. It must be stopped.
func Start(c Command) (*Process, error) {
	p := &Process{Name: c.Name, log: filepath.Join(c.Dir, c.Name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()      // the process has its own copy
	p.cmd = exec.Command(c.Path, c.Args...) //nolint:gosec,noctx // our own program; Stop ends it
	p.cmd.Dir = c.Dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir}, c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// The process must not outlive the benchmark, nor get the signals that a terminal sends to it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	procgroup.EndWithParent(p.cmd.SysProcAttr)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() { // ends with the process
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended stands in its log
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ready waits until GET url answers 200, the process ends, or ctx is done.
func (p *Process) Ready(ctx context.Context, url string) error {
	for {
		if answers(ctx, url) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %s", p.Name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.Name, ctx.Err(), p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Listening waits until addr takes connections, the process ends, or ctx is done.
func (p *Process) Listening(ctx context.Context, addr string) error {
	dialer := net.Dialer{Timeout: time.Second}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it listened: %s", p.Name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w: %s", p.Name, ctx.Err(), p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop asks the process to end, and ends it after grace. With a grace of 0 it does not ask.
func (p *Process) Stop(grace time.Duration) {
	if grace > 0 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it has ended already, else
	}
	select {
	case <-p.done:
		return
	case <-time.After(grace):
	}
	_ = p.cmd.Process.Kill() // as above
	<-p.done
}

// tail is the end of what the process printed.
func (p *Process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// Build compiles a main package of this module, or of one that it requires, into dir and returns the program's path.
func Build(ctx context.Context, dir, name, pkg string) (string, error) {
	path := filepath.Join(dir, name)
	//nolint:gosec // the package is named by a list in the code
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	return path, nil
}

// FreeAddr returns a loopback address that nobody listens on now.
func FreeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := listener.Addr().String()
	return addr, listener.Close()
}
