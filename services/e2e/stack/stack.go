// Package stack starts agentbus as its users run it, real processes on real servers, for the end-to-end tests: either
// `agentbus dev`, or each service as a process with nats-server, redis-server and PostgreSQL.
package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/pkg/pgtest"
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
	Database string // postgres://…, for Processes; "" = a server of the stack's own, which may be stopped and restarted

	Binaries string         // folder of an earlier stack's binaries; "" = build them
	Counts   map[string]int // of each service, for Processes; of those that it does not name 1, and no hub
	Env      []string       // of every service, over the stack's own; or of the one process
	NATS     string         // more configuration of nats-server, for Processes
}

// Stack is a running agentbus.
type Stack struct {
	URL      string   // of the first gateway
	Gateways []string // the URLs of all of them
	Hub      string   // URL of the hub; "" = none was asked for

	// The servers, for Processes.
	NATS        string // nats://…
	NATSMonitor string // http://…
	Redis       string // redis://…
	Database    string // postgres://…

	options     Options
	postgresDir string // "" = an external database
	mu          sync.Mutex
	processes   []*Process
}

// Start builds and starts everything, and waits until it is ready. On an error everything that was started is removed. A Stack
// is safe for concurrent use.
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
	s.Gateways = []string{s.URL}
	_, err = s.Run(ctx, "agentbus", s.URL+"/readyz", s.options.Env,
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
		"hub":           "./services/hub/cmd",
		"agent-server":  "./services/agent-server/cmd",
	} {
		if err := s.build(ctx, name, pkg); err != nil {
			return err
		}
	}
	for _, start := range []func(context.Context) error{s.startNATS, s.startRedis, s.startPostgres} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	for _, name := range []string{"history", "tool-executor", "agent-runner", "gateway"} {
		for range max(s.options.Counts[name], 1) {
			if err := s.startService(ctx, name); err != nil {
				return err
			}
		}
	}
	for range s.options.Counts["hub"] {
		if err := s.startService(ctx, "hub"); err != nil {
			return err
		}
	}
	s.URL = s.Gateways[0]
	return nil
}

// startService starts one process of a service and waits until it is ready.
func (s *Stack) startService(ctx context.Context, name string) error {
	admin, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	env := []string{
		"NATS_URL=" + s.NATS, "REDIS_URL=" + s.Redis, "DATABASE_URL=" + s.Database,
		"CONFIG_FILE=" + s.options.Config, "NATS_PROVISION=create", "AUTH=off", "ADMIN_ADDR=" + admin,
	}
	ready := "http://" + admin + "/readyz"
	if name == "gateway" {
		addr, err := freeAddr(ctx)
		if err != nil {
			return err
		}
		env = append(env, "HTTP_ADDR="+addr)
		s.Gateways = append(s.Gateways, "http://"+addr)
		ready = "http://" + addr + "/readyz"
	}
	if name == "hub" {
		addr, err := freeAddr(ctx)
		if err != nil {
			return err
		}
		env = append(env, "HTTP_ADDR="+addr, "HUB_SECRET="+HubSecret)
		s.Hub = "http://" + addr
	}
	p, err := s.Run(ctx, name, ready, append(env, s.options.Env...), s.binary(name))
	if err == nil {
		p.Admin = "http://" + admin
	}
	return err
}

func (s *Stack) startNATS(ctx context.Context) error {
	client, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	monitor, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(client)
	if err != nil {
		return err
	}
	_, monitorPort, err := net.SplitHostPort(monitor)
	if err != nil {
		return err
	}
	s.NATS, s.NATSMonitor = "nats://"+client, "http://"+monitor
	args := []string{"-a", host, "-p", port, "-m", monitorPort, "-js", "-sd", s.NATSDir()}
	if s.options.NATS != "" {
		file := filepath.Join(s.options.Dir, "nats.conf")
		if err := os.WriteFile(file, []byte(s.options.NATS), 0o600); err != nil {
			return fmt.Errorf("configuration of nats-server: %w", err)
		}
		args = append(args, "-c", file)
	}
	_, err = s.Run(ctx, "nats-server", s.NATSMonitor+"/healthz", nil, s.binary("nats-server"), args...)
	return err
}

// NATSDir is the folder in which nats-server keeps its data.
func (s *Stack) NATSDir() string { return filepath.Join(s.options.Dir, "nats") }

func (s *Stack) startRedis(ctx context.Context) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	s.Redis = "redis://" + addr + "/0"
	_, err = s.Run(ctx, "redis-server", addr, nil,
		"redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", s.options.Dir)
	return err
}

func (s *Stack) startPostgres(ctx context.Context) error {
	s.Database = s.options.Database
	if s.Database != "" {
		return nil
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	server, url, err := pgtest.Prepare(addr)
	if err != nil {
		return err
	}
	s.Database, s.postgresDir = url, server.Dir
	p := &Process{Name: "postgres", ready: addr, command: func() *exec.Cmd {
		c := exec.Command(server.Path, server.Args[1:]...) //nolint:gosec,noctx // a server of ours; Stop ends it
		c.Dir, c.SysProcAttr = server.Dir, &syscall.SysProcAttr{Credential: server.SysProcAttr.Credential}
		return c
	}}
	if err := s.start(ctx, p); err != nil {
		return err
	}
	return pgtest.Await(ctx, url)
}

// Stop ends all processes in order, the newest first.
func (s *Stack) Stop() { s.end((*Process).Stop) }

// Kill ends all processes at once.
func (s *Stack) Kill() { s.end((*Process).Kill) }

func (s *Stack) end(stop func(*Process)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Backward(s.processes) {
		stop(p)
	}
	s.processes = nil
	if s.postgresDir != "" {
		_ = os.RemoveAll(s.postgresDir) // a temporary folder, which the system removes otherwise
	}
}

// Processes returns the processes of a service or server, in the order in which they were started.
func (s *Stack) Processes(name string) []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Process
	for _, p := range s.processes {
		if p.Name == name {
			found = append(found, p)
		}
	}
	return found
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

func (s *Stack) binary(name string) string {
	return filepath.Join(cmp.Or(s.options.Binaries, s.options.Dir), name)
}

// build compiles a command of the module, or of one that it requires.
func (s *Stack) build(ctx context.Context, name, pkg string) error {
	if s.options.Binaries != "" {
		return nil
	}
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
