// Package stack configures agentbus for the end-to-end tests and starts it, as its users run it: either `agentbus dev`, or
// each service and each server as a process (see internal/testcluster).
package stack

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agentbus/agentbus/internal/pgserver"
	"github.com/agentbus/agentbus/internal/testcluster"
)

// Kind is a way to run agentbus.
type Kind string

// The kinds.
const (
	Dev       Kind = "dev"       // one process on embedded servers
	Processes Kind = "processes" // each service and each server by itself
)

// HubSecret is what the hub of a stack seals keys with.
const HubSecret = "a secret of the end-to-end tests"

// Options configure a stack.
type Options struct {
	Kind     Kind
	Dir      string // for binaries, data and logs
	Config   string // path of the YAML file
	Database string // postgres://…, for Processes; "" = a server of the stack's own, which may be stopped and restarted

	Binaries string         // folder of an earlier stack's binaries; "" = build them
	Counts   map[string]int // of each service, for Processes; of those that it does not name 1, and no hub
	Env      []string       // of every service, over the stack's own; or of the one process
	Args     []string       // further arguments of the one process

	OpenNATS   bool   // without users and TLS, for Processes: clients of the broker connect as those of a small installation
	NATSLimits string // of the JetStream account of the services, for Processes; "" = none
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
	layout      testcluster.Layout
	group       testcluster.Group
	postgresDir string // "" = an external database
}

// Agent is an agent-server of the TARS hub protocol.
type Agent struct {
	*testcluster.Process
	ID, URL string
}

// Start builds and starts everything, and waits until it is ready. On an error everything that was started is removed. A Stack
// is safe for concurrent use.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{options: o, layout: testcluster.Layout{Dir: o.Dir}}
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

// build compiles the programs, unless an earlier stack has.
func (s *Stack) build(ctx context.Context, kinds ...testcluster.Kind) (err error) {
	s.layout.Programs, err = testcluster.Build(ctx, cmp.Or(s.options.Binaries, s.options.Dir), nil, kinds...)
	return err
}

func (s *Stack) startDev(ctx context.Context) error {
	if err := s.build(ctx, testcluster.Dev); err != nil {
		return err
	}
	addr, err := s.layout.Addr(ctx)
	if err != nil {
		return err
	}
	s.URL = "http://" + addr
	s.Gateways = []string{s.URL}
	_, err = s.group.Start(ctx, testcluster.Command{
		Kind: testcluster.Dev, Name: string(testcluster.Dev), Path: s.layout.Programs[testcluster.Dev], Dir: s.options.Dir,
		Args: append([]string{"dev", "--addr", addr, "--data", filepath.Join(s.options.Dir, "data"), "--config", s.options.Config}, s.options.Args...),
		Env:  s.options.Env, Addr: addr, Ready: testcluster.Answers(s.URL + "/readyz"),
	})
	return err
}

func (s *Stack) startProcesses(ctx context.Context) error {
	if err := s.build(ctx, append(testcluster.Services(), testcluster.NATS)...); err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{s.startNATS, s.startRedis, s.startPostgres} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	for _, kind := range []testcluster.Kind{testcluster.History, testcluster.Executor, testcluster.Runner, testcluster.Gateway} {
		for range max(s.options.Counts[string(kind)], 1) {
			if err := s.startService(ctx, kind); err != nil {
				return err
			}
		}
	}
	for range s.options.Counts[string(testcluster.Hub)] {
		if err := s.startService(ctx, testcluster.Hub); err != nil {
			return err
		}
	}
	s.URL = s.Gateways[0]
	return nil
}

// startService starts one process of a service and waits until it is ready.
func (s *Stack) startService(ctx context.Context, kind testcluster.Kind) error {
	servers := testcluster.Servers{NATS: s.NATS, Redis: s.Redis, Database: s.Database}
	env := append([]string{"CONFIG_FILE=" + s.options.Config, "AUTH=off"}, s.natsEnv(kind)...)
	if kind == testcluster.Hub {
		env = append(env, "HUB_SECRET="+HubSecret)
	}
	command, err := s.layout.Service(ctx, kind, &servers, append(env, s.options.Env...)...)
	if err != nil {
		return err
	}
	switch url := "http://" + command.Addr; kind {
	case testcluster.Gateway:
		s.Gateways = append(s.Gateways, url)
	case testcluster.Hub:
		s.Hub = url
	default:
	}
	_, err = s.group.Start(ctx, command)
	return err
}

// StartAgent starts an agent-server with the scripted backend, which stores its state in a separate folder.
func (s *Stack) StartAgent(ctx context.Context, id, keys string, env ...string) (Agent, error) {
	command, err := s.layout.Service(ctx, testcluster.Agent, nil, "AGENT_ID="+id, "AGENT_NAME=Agent "+id, "AGENT_KEYS="+keys,
		"AGENT_BACKEND=scripted", "DATA_DIR="+filepath.Join(s.options.Dir, "agent-"+id))
	if err != nil {
		return Agent{}, err
	}
	url := "http://" + command.Addr
	command.Env = append(append(command.Env, "AGENT_URL="+url), env...)
	p, err := s.group.Start(ctx, command)
	return Agent{Process: p, ID: id, URL: url}, err
}

// NATSDir is the folder in which the NATS server stores its data.
func (s *Stack) NATSDir() string {
	return filepath.Join(s.options.Dir, testcluster.Name(testcluster.NATS, 0))
}

func (s *Stack) startRedis(ctx context.Context) error {
	command, err := s.layout.Redis(ctx)
	if err != nil {
		return err
	}
	s.Redis = testcluster.RedisURL(command.Addr)
	_, err = s.group.Start(ctx, command)
	return err
}

func (s *Stack) startPostgres(ctx context.Context) error {
	s.Database = s.options.Database
	if s.Database != "" {
		return nil
	}
	server, err := pgserver.NewTemporary(ctx)
	if err != nil {
		return err
	}
	s.postgresDir = server.Dir
	command, err := s.layout.Postgres(ctx, server)
	if err != nil {
		return err
	}
	s.Database = pgserver.URL(command.Addr)
	_, err = s.group.Start(ctx, command)
	return err
}

// Stop ends all processes in order, the newest first.
func (s *Stack) Stop() {
	s.group.Stop()
	s.remove()
}

// Kill ends all processes at once.
func (s *Stack) Kill() {
	s.group.Kill()
	s.remove()
}

func (s *Stack) remove() {
	if s.postgresDir != "" {
		_ = os.RemoveAll(s.postgresDir) // a temporary folder, which the system removes otherwise
	}
}

// Processes returns the processes of a service or server, in the order in which they were started.
func (s *Stack) Processes(name string) []*testcluster.Process {
	return s.group.Processes(testcluster.Kind(name))
}

// Logs returns what all processes have printed.
func (s *Stack) Logs() string { return s.group.Logs() }
