// Package stack runs agentbus as in production: each service, NATS and Redis as a separate process, on loopback, with
// streams in files.
package stack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/process"
	"github.com/agentbus/agentbus/internal/testcluster"
)

// The processes that are measured.
const (
	NATS     = testcluster.NATS
	Redis    = testcluster.Redis
	Gateway  = testcluster.Gateway
	Runner   = testcluster.Runner
	Executor = testcluster.Executor
	History  = testcluster.History
)

// services are the services of a stack, in the order of their start.
func services() []testcluster.Kind { return []testcluster.Kind{History, Executor, Runner, Gateway} }

// Build compiles the services, and the NATS server of the version in go.mod, into dir. This program itself serves as
// Redis.
func Build(ctx context.Context, dir string) (testcluster.Programs, error) {
	programs, err := testcluster.Build(ctx, dir, nil, append(services(), NATS)...)
	if err != nil {
		return nil, err
	}
	programs[Redis], err = os.Executable()
	return programs, err
}

// Options are the settings of a stack.
type Options struct {
	Dir        string // folder for all data; it must not exist
	Slots      int    // concurrent requests
	SyncAlways bool   // NATS syncs each message to the disk before it acknowledges it
	Keys       bool   // require an API key for requests: see [Stack.Key]
	Profile    bool   // serve profiles: see [Stack.Profile]
}

// Stack is a running stack.
type Stack struct {
	URL      string // of the gateway
	NATSAddr string
	layout   testcluster.Layout
	group    testcluster.Group
	byKind   map[testcluster.Kind]*testcluster.Process
}

// Start starts a stack and waits until all of it is ready. The caller must stop it.
func Start(ctx context.Context, p testcluster.Programs, o Options) (*Stack, error) {
	s := &Stack{
		layout: testcluster.Layout{Dir: o.Dir, Programs: p}, byKind: map[testcluster.Kind]*testcluster.Process{},
	}
	if err := s.start(ctx, o); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context, o Options) error {
	if err := os.Mkdir(o.Dir, 0o750); err != nil {
		return err
	}
	file := filepath.Join(o.Dir, "agentbus.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return err
	}
	sync := "" // the default of NATS
	if o.SyncAlways {
		sync = "always"
	}
	nats, err := s.layout.NATS(ctx, testcluster.NATSOptions{Nodes: 1, Sync: sync})
	if err != nil {
		return err
	}
	redis, err := s.layout.Redis(ctx)
	if err != nil {
		return err
	}
	redis.Path, redis.Args = s.layout.Programs[Redis], []string{"redis", redis.Addr}
	for _, server := range []testcluster.Command{nats[0], redis} {
		if err := s.add(ctx, server); err != nil {
			return err
		}
	}
	auth := "off"
	if o.Keys {
		auth = "required"
	}
	servers := testcluster.Servers{
		NATS: testcluster.NATSURL(nats), Redis: testcluster.RedisURL(redis.Addr), Database: "sqlite:" + filepath.Join(o.Dir, "history.db"),
	}
	s.NATSAddr = nats[0].Addr
	for _, kind := range services() {
		command, err := s.layout.Service(ctx, kind, &servers, "NATS_PROVISION=create", "CONFIG_FILE="+file, "AUTH="+auth,
			"KEY_PEPPER="+pepper, "SLOTS="+strconv.Itoa(o.Slots), "PROFILE="+strconv.FormatBool(o.Profile))
		if err != nil {
			return err
		}
		if err := s.add(ctx, command); err != nil {
			return err
		}
	}
	s.URL = "http://" + s.byKind[Gateway].Addr
	return nil
}

// configuration is the YAML file of the services. A single client sends all requests, and requests may sleep for the
// duration of the benchmark.
const configuration = `agents:
  demo:
    backend: scripted
    limits: { time: 1h }
gateway:
  rateLimit: { requests: 1000000, per: 1s, burst: 1000000 }
`

// add starts a process and waits until it is ready.
func (s *Stack) add(ctx context.Context, c testcluster.Command) error {
	p, err := s.group.Start(ctx, c)
	s.byKind[c.Kind] = p
	return err
}

// Stop ends all processes. It does not wait for work in progress, because the measurement is over.
func (s *Stack) Stop() { s.group.Kill() }

// Usage is the processor time of each process.
type Usage map[testcluster.Kind]time.Duration

// Sub returns the usage since before.
func (u Usage) Sub(before Usage) Usage {
	since := Usage{}
	for name, used := range u {
		since[name] = used - before[name]
	}
	return since
}

// Sum returns the usage of all processes together.
func (u Usage) Sum(kinds ...testcluster.Kind) time.Duration {
	var sum time.Duration
	for _, kind := range kinds {
		sum += u[kind]
	}
	return sum
}

// CPU returns the processor time of every process.
func (s *Stack) CPU() (Usage, error) {
	used := Usage{}
	for kind, p := range s.byKind {
		cpu, err := process.CPU(p.PID())
		if err != nil {
			return nil, fmt.Errorf("processor time of %s: %w", kind, err)
		}
		used[kind] = cpu
	}
	return used, nil
}

// PeakRSS returns the highest memory of a process since its start, in bytes.
func (s *Stack) PeakRSS(kind testcluster.Kind) (int64, error) {
	return process.PeakRSS(s.byKind[kind].PID())
}

// RSS returns the memory of a process, in bytes.
func (s *Stack) RSS(kind testcluster.Kind) (int64, error) { return process.RSS(s.byKind[kind].PID()) }

// Profile returns a profile of a service, such as "heap" or "goroutine?debug=2", as /debug/pprof serves it.
func (s *Stack) Profile(ctx context.Context, service testcluster.Kind, kind string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.byKind[service].Admin+"/debug/pprof/"+kind, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("profile %s of %s: %w", kind, service, err)
	}
	defer func() { _ = response.Body.Close() }() // everything is read
	return io.ReadAll(response.Body)
}

// The conditions of Quiet.
const (
	quietFor  = 300 * time.Millisecond
	quietCPU  = 30 * time.Millisecond // of all processes together in quietFor
	quietWait = time.Minute
)

// Quiet waits until the processes have finished remaining work, such as the projection into SQL, so that it is counted
// with its cause and does not disturb the next measurement.
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
