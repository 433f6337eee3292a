// Package stack runs agentbus as it runs in production: each service, NATS and Redis in a process of its own, on
// loopback, with streams in files.
package stack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/process"
)

// The names of the processes.
const (
	NATS     = "nats"
	Redis    = "redis"
	Gateway  = "gateway"
	Runner   = "agent-runner"
	Executor = "tool-executor"
	History  = "history"
)

// Programs are the paths of what a stack consists of.
type Programs struct {
	self string // this program, which serves as Redis
	path map[string]string
}

// Build compiles the services and the NATS server that go.mod names into dir.
func Build(ctx context.Context, dir string) (Programs, error) {
	self, err := os.Executable()
	if err != nil {
		return Programs{}, err
	}
	programs := Programs{self: self, path: map[string]string{}}
	packages := map[string]string{NATS: "github.com/nats-io/nats-server/v2"}
	for _, name := range []string{Gateway, Runner, Executor, History} {
		packages[name] = "github.com/agentbus/agentbus/services/" + name + "/cmd"
	}
	for name, pkg := range packages {
		if programs.path[name], err = process.Build(ctx, dir, name, pkg); err != nil {
			return programs, err
		}
	}
	return programs, nil
}

// Options say how a stack runs.
type Options struct {
	Dir        string // where everything is kept; it must not exist yet
	Slots      int    // requests in flight
	SyncAlways bool   // NATS syncs each message to the disk before it acknowledges it
	Keys       bool   // requests need an API key: see [Stack.Key]
	Profile    bool   // the services serve profiles: see [Stack.Profile]
}

// Stack is one that runs.
type Stack struct {
	URL       string // of the gateway
	NATSAddr  string
	processes []*process.Process // in the order of their start
	byName    map[string]*process.Process
	admin     map[string]string // URL of each service's server for operators
}

// startWait bounds the start of one process.
const startWait = 30 * time.Second

// Start starts a stack and waits until all of it is ready. Stop it.
func Start(ctx context.Context, p Programs, o Options) (*Stack, error) {
	s := &Stack{byName: map[string]*process.Process{}, admin: map[string]string{}}
	if err := s.start(ctx, p, o); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context, p Programs, o Options) error {
	if err := os.Mkdir(o.Dir, 0o750); err != nil {
		return err
	}
	ports, err := freeAddrs(ctx, 7)
	if err != nil {
		return err
	}
	s.NATSAddr = ports[0]
	redis, public := ports[1], ports[2]
	s.URL = "http://" + public
	natsFile, configFile, err := writeFiles(o, s.NATSAddr)
	if err != nil {
		return err
	}
	nats := process.Command{Name: NATS, Path: p.path[NATS], Args: []string{"-c", natsFile}, Dir: o.Dir}
	if err := s.server(ctx, nats, s.NATSAddr); err != nil {
		return err
	}
	store := process.Command{Name: Redis, Path: p.self, Args: []string{"redis", redis}, Dir: o.Dir}
	if err := s.server(ctx, store, redis); err != nil {
		return err
	}
	auth := "off"
	if o.Keys {
		auth = "required"
	}
	env := []string{
		"NATS_URL=nats://" + s.NATSAddr, "NATS_PROVISION=create", "REDIS_URL=redis://" + redis + "/0", "CONFIG_FILE=" + configFile,
		"HTTP_ADDR=" + public, "AUTH=" + auth, "KEY_PEPPER=" + pepper, "SLOTS=" + strconv.Itoa(o.Slots), "PROFILE=" + strconv.FormatBool(o.Profile),
		"DATABASE_URL=sqlite:" + filepath.Join(o.Dir, "history.db"),
	}
	for i, name := range []string{History, Executor, Runner, Gateway} {
		command := process.Command{
			Name: name, Path: p.path[name], Dir: o.Dir, Env: append([]string{"ADMIN_ADDR=" + ports[3+i]}, env...),
		}
		s.admin[name] = "http://" + ports[3+i]
		if err := s.service(ctx, command, s.admin[name]+"/readyz"); err != nil {
			return err
		}
	}
	return nil
}

func freeAddrs(ctx context.Context, n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		addr, err := process.FreeAddr(ctx)
		if err != nil {
			return nil, err
		}
		addrs[i] = addr
	}
	return addrs, nil
}

// writeFiles writes the configurations of NATS and of the services.
func writeFiles(o Options, natsAddr string) (natsFile, configFile string, err error) {
	sync := "2m" // the default of NATS
	if o.SyncAlways {
		sync = "always"
	}
	natsFile = filepath.Join(o.Dir, "nats.conf")
	configFile = filepath.Join(o.Dir, "agentbus.yaml")
	text := fmt.Sprintf("listen: %q\nserver_name: bench\njetstream { store_dir: %q, sync_interval: %q }\n",
		natsAddr, filepath.Join(o.Dir, "jetstream"), sync)
	if err := os.WriteFile(natsFile, []byte(text), 0o600); err != nil {
		return "", "", err
	}
	// One client sends everything here, and runs may sleep for as long as the benchmark goes on.
	const config = "agents:\n  demo:\n    backend: scripted\n    limits: { time: 1h }\n" +
		"gateway:\n  rateLimit: { requests: 1000000, per: 1s, burst: 1000000 }\n"
	return natsFile, configFile, os.WriteFile(configFile, []byte(config), 0o600)
}

// server starts a process that is ready when it listens.
func (s *Stack) server(ctx context.Context, c process.Command, addr string) error {
	p, err := s.add(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return p.Listening(ctx, addr)
}

// service starts a process that is ready when it says so.
func (s *Stack) service(ctx context.Context, c process.Command, url string) error {
	p, err := s.add(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return p.Ready(ctx, url)
}

func (s *Stack) add(c process.Command) (*process.Process, error) {
	p, err := process.Start(c)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	s.byName[c.Name] = p
	return p, nil
}

// Stop ends all processes. It does not wait for what they are doing: the measuring is over.
func (s *Stack) Stop() {
	for _, p := range slices.Backward(s.processes) {
		p.Stop(0)
	}
}

// Usage is the processor time of each process by name.
type Usage map[string]time.Duration

// Sub is what was used since before.
func (u Usage) Sub(before Usage) Usage {
	since := Usage{}
	for name, used := range u {
		since[name] = used - before[name]
	}
	return since
}

// Sum is what the processes used together.
func (u Usage) Sum(names ...string) time.Duration {
	var sum time.Duration
	for _, name := range names {
		sum += u[name]
	}
	return sum
}

// CPU is what every process has used until now.
func (s *Stack) CPU() (Usage, error) {
	used := Usage{}
	for name, p := range s.byName {
		cpu, err := p.CPU()
		if err != nil {
			return nil, fmt.Errorf("processor time of %s: %w", name, err)
		}
		used[name] = cpu
	}
	return used, nil
}

// PeakRSS is the most memory that a process has held since its start, in bytes.
func (s *Stack) PeakRSS(name string) (int64, error) { return s.byName[name].PeakRSS() }

// RSS is the memory that a process holds, in bytes.
func (s *Stack) RSS(name string) (int64, error) { return s.byName[name].RSS() }

// Profile returns a profile of a service, such as "heap" or "goroutine?debug=2", as /debug/pprof serves it.
func (s *Stack) Profile(ctx context.Context, name, kind string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin[name]+"/debug/pprof/"+kind, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("profile %s of %s: %w", kind, name, err)
	}
	defer func() { _ = response.Body.Close() }() // everything is read
	return io.ReadAll(response.Body)
}

// What Quiet takes for quiet.
const (
	quietFor  = 300 * time.Millisecond
	quietCPU  = 30 * time.Millisecond // of all processes together in that time
	quietWait = time.Minute
)

// Quiet waits until the processes have done what was left to do, such as the projection into SQL, so that it is counted
// where it belongs and does not disturb what comes next.
func (s *Stack) Quiet(ctx context.Context) error {
	deadline := time.Now().Add(quietWait)
	for {
		before, err := s.CPU()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(quietFor):
		}
		after, err := s.CPU()
		if err != nil {
			return err
		}
		if after.Sub(before).Sum(NATS, Redis, Gateway, Runner, Executor, History) <= quietCPU {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the stack is still busy after %v", quietWait)
		}
	}
}
