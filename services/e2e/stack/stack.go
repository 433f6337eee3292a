// Package stack starts agentbus as its users run it, real processes on real servers, for the end-to-end tests: either
// `agentbus dev`, or each service as a process of its own beside nats-server, redis-server and PostgreSQL.
package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Kind is a way to run agentbus.
type Kind string

// The kinds.
const (
	Dev       Kind = "dev"       // one process on embedded servers
	Processes Kind = "processes" // each service and each server by itself
)

// readyWait bounds the wait for a process that starts.
const readyWait = 60 * time.Second

// Options say what to run.
type Options struct {
	Kind     Kind
	Dir      string // for binaries, data and logs
	Config   string // path of the YAML file
	Database string // postgres://…, for Processes
}

// Stack is a running agentbus.
type Stack struct {
	URL string // of the gateway

	options   Options
	mu        sync.Mutex
	processes []*Process
}

// Process is a child process.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// Start builds and starts everything, and waits until it is ready. On an error nothing stays behind.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{options: o}
	var err error
	switch o.Kind {
	case Dev:
		err = s.startDev(ctx)
	case Processes:
		err = s.startProcesses(ctx)
	default:
		err = fmt.Errorf("stack %q is neither %q nor %q", o.Kind, Dev, Processes)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Stack) startDev(ctx context.Context) error {
	if err := s.build(ctx, "agentbus", "./cmd/agentbus"); err != nil {
		return err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	s.URL = "http://" + addr
	_, err = s.Run(ctx, "agentbus", s.URL+"/readyz", nil,
		s.binary("agentbus"), "dev", "--addr", addr, "--data", filepath.Join(s.options.Dir, "data"), "--config", s.options.Config)
	return err
}

func (s *Stack) startProcesses(ctx context.Context) error {
	for name, pkg := range map[string]string{
		"nats-server":   "github.com/nats-io/nats-server/v2",
		"gateway":       "./services/gateway/cmd",
		"agent-runner":  "./services/agent-runner/cmd",
		"tool-executor": "./services/tool-executor/cmd",
		"history":       "./services/history/cmd",
	} {
		if err := s.build(ctx, name, pkg); err != nil {
			return err
		}
	}
	nats, err := s.startNATS(ctx)
	if err != nil {
		return err
	}
	redis, err := s.startRedis(ctx)
	if err != nil {
		return err
	}
	http, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	s.URL = "http://" + http
	common := []string{
		"NATS_URL=" + nats, "REDIS_URL=" + redis, "DATABASE_URL=" + s.options.Database,
		"CONFIG_FILE=" + s.options.Config, "NATS_PROVISION=create", "AUTH=off", "HTTP_ADDR=" + http,
	}
	for _, name := range []string{"history", "tool-executor", "agent-runner", "gateway"} {
		admin, err := freeAddr(ctx)
		if err != nil {
			return err
		}
		env := append([]string{"ADMIN_ADDR=" + admin}, common...)
		if _, err := s.Run(ctx, name, "http://"+admin+"/readyz", env, s.binary(name)); err != nil {
			return err
		}
	}
	return waitHTTP(ctx, s.URL+"/readyz")
}

func (s *Stack) startNATS(ctx context.Context) (url string, err error) {
	client, err := freeAddr(ctx)
	if err != nil {
		return "", err
	}
	monitor, err := freeAddr(ctx)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(client)
	if err != nil {
		return "", err
	}
	_, monitorPort, err := net.SplitHostPort(monitor)
	if err != nil {
		return "", err
	}
	_, err = s.Run(ctx, "nats-server", "http://"+monitor+"/healthz", nil, s.binary("nats-server"),
		"-a", host, "-p", port, "-m", monitorPort, "-js", "-sd", filepath.Join(s.options.Dir, "nats"))
	return "nats://" + client, err
}

func (s *Stack) startRedis(ctx context.Context) (url string, err error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	_, err = s.Run(ctx, "redis-server", "", nil, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", s.options.Dir)
	if err != nil {
		return "", err
	}
	return "redis://" + addr + "/0", waitDial(ctx, addr)
}

// Run starts a process and, unless ready is "", waits until that URL answers 200. env is added to this process's own.
func (s *Stack) Run(ctx context.Context, name, ready string, env []string, command string, args ...string) (*Process, error) {
	p := &Process{Name: name, log: filepath.Join(s.options.Dir, name+".log"), done: make(chan struct{})}
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer func() { _ = output.Close() }()  // the child has its own handle
	p.cmd = exec.Command(command, args...) //nolint:gosec,noctx // a server of ours; Stop ends it
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended stands in its log
		close(p.done)
	}()
	s.mu.Lock()
	s.processes = append(s.processes, p)
	s.mu.Unlock()
	if ready == "" {
		return p, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with ctx, so with this function at the latest
		select {
		case <-p.done:
			cancel(errors.New("it has ended"))
		case <-ctx.Done():
		}
	}()
	if err := waitHTTP(ctx, ready); err != nil {
		return nil, fmt.Errorf("%s is not ready: %w\n%s", name, err, p.Log())
	}
	return p, nil
}

// Log returns what the process has printed.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Stop ends the process in order, or by force when it takes too long.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.Kill()
	}
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.done
}

// Stop ends all processes, the newest first.
func (s *Stack) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.processes) > 0 {
		last := len(s.processes) - 1
		s.processes[last].Stop()
		s.processes = s.processes[:last]
	}
}

// Logs returns what all processes have printed.
func (s *Stack) Logs() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all strings.Builder
	for _, p := range s.processes {
		fmt.Fprintf(&all, "--- %s\n%s\n", p.Name, p.Log())
	}
	return all.String()
}

func (s *Stack) binary(name string) string { return filepath.Join(s.options.Dir, name) }

// build compiles a command of the module, or of one that it requires.
func (s *Stack) build(ctx context.Context, name, pkg string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", s.binary(name), pkg) //nolint:gosec // packages of startDev and startProcesses
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(output))), nil
}

func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func waitHTTP(ctx context.Context, url string) error {
	return wait(ctx, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	})
}

func waitDial(ctx context.Context, addr string) error {
	return wait(ctx, func() error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// wait tries until it works.
func wait(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
