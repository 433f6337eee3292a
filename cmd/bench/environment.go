package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/bare"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
	"github.com/agentbus/agentbus/cmd/bench/internal/process"
	"github.com/agentbus/agentbus/cmd/bench/internal/stack"
	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/internal/testcluster"
	"golang.org/x/sync/errgroup"
)

// environment is the environment of the experiments: a running agentbus, a running bare server and a client.
type environment struct {
	options  options
	dir      string
	programs testcluster.Programs
	client   *load.Client
	stack    *stack.Stack
	bare     *bareServer
	turn     int // number of the round
	ports    loopback.Ports
	started  int          // number of stacks and bare servers, for the names of their folders
	checked  atomic.Int64 // events whose order was verified

	delta int // bytes of text in a delta that give an event of the configured size
	size  int // bytes of a delta on the wire
	last  int // bytes of all other events of a stream on the wire
}

// bareServer is a plain HTTP server.
type bareServer struct {
	URL string
	*testcluster.Process
}

// CPU returns the processor time that the server has used.
func (y *bareServer) CPU() (time.Duration, error) { return process.CPU(y.PID()) }

// RSS returns the memory of the server, in bytes.
func (y *bareServer) RSS() (int64, error) { return process.RSS(y.PID()) }

// streamBuffer is the client's buffer for each of many streams.
const streamBuffer = 32 << 10

func openLab(ctx context.Context, o options) (*environment, error) {
	dir, err := os.MkdirTemp("", "agentbus-bench-")
	if err != nil {
		return nil, err
	}
	l := &environment{options: o, dir: dir, client: load.New(streamBuffer)}
	if err := l.open(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *environment) open(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "building")
	var err error
	if l.programs, err = stack.Build(ctx, l.dir); err != nil {
		return err
	}
	if l.stack, err = l.newStack(ctx, stack.Options{Slots: 2 * l.options.streams}); err != nil {
		return err
	}
	if l.bare, err = l.newBare(ctx); err != nil {
		return err
	}
	return l.calibrate(ctx)
}

func (l *environment) close() {
	l.client.Close()
	if l.bare != nil {
		l.bare.Kill()
	}
	if l.stack != nil {
		l.stack.Stop()
	}
	_ = os.RemoveAll(l.dir) // the system removes the rest of a temporary folder
}

// newStack starts a fresh agentbus.
func (l *environment) newStack(ctx context.Context, o stack.Options) (*stack.Stack, error) {
	l.started++
	o.Dir = filepath.Join(l.dir, "stack"+strconv.Itoa(l.started))
	return stack.Start(ctx, l.programs, o)
}

// profile stores the heap and the goroutines of a gateway, if profiles are requested.
func (l *environment) profile(ctx context.Context, s *stack.Stack, name string) error {
	if l.options.profile == "" {
		return nil
	}
	for _, kind := range []string{"heap", "goroutine"} {
		text, err := s.Profile(ctx, stack.Gateway, kind)
		if err != nil {
			return err
		}
		file := filepath.Join(l.options.profile, fmt.Sprintf("%s%d.%s.pprof", name, l.turn+1, kind))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// newBare starts a fresh bare server.
func (l *environment) newBare(ctx context.Context) (*bareServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := l.ports.Next(ctx)
	if err != nil {
		return nil, err
	}
	l.started++
	url := "http://" + addr
	y := &bareServer{URL: url, Process: testcluster.NewProcess(testcluster.Command{
		Name: "bare" + strconv.Itoa(l.started), Path: self, Args: []string{"bare", addr}, Dir: l.dir, Ready: testcluster.Answers(url + "/readyz"),
	})}
	if err := y.Start(ctx); err != nil {
		y.Kill()
		return nil, err
	}
	return y, nil
}

// leastDelta is the shortest text of a delta: about a token.
const leastDelta = 4

// calibrate determines the length of text that gives an event of the configured size, and the resulting size of
// streams, so that the bare server sends exactly as many bytes.
func (l *environment) calibrate(ctx context.Context) error {
	probe, err := l.client.Read(ctx, streamOf(l.stack.URL, 100, 0, leastDelta))
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	l.delta = leastDelta + max(l.options.bytes-probe.DeltaBytes/probe.Deltas, 0)
	whole, err := l.client.Read(ctx, streamOf(l.stack.URL, l.options.events, 0, l.delta))
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	l.size = whole.DeltaBytes / whole.Deltas
	l.last = whole.Bytes - whole.DeltaBytes
	return l.stack.Quiet(ctx)
}

// prompt is a request that runs a script (see pkg/backend/scripted).
func prompt(gateway, script string) load.Request {
	return load.Request{
		Method: http.MethodPost, URL: gateway + "/v1/agents/demo/stream", Deltas: -1,
		Body: `{"messages":[{"role":"user","content":` + strconv.Quote(script) + `}]}`,
	}
}

// streamOf returns a request for the given number and size of deltas, at a rate per second, 0 = as fast as possible.
func streamOf(gateway string, deltas int, rate float64, bytes int) load.Request {
	r := prompt(gateway, fmt.Sprintf("/stream %d %s %d", deltas, strconv.FormatFloat(rate, 'g', -1, 64), bytes))
	r.Deltas = deltas
	return r
}

// bareStream returns the same stream from a bare server: as many deltas of the same size, and the same number of other
// bytes.
func (l *environment) bareStream(deltas int, rate float64) load.Request {
	last := l.last * deltas / l.options.events
	shape := bare.Shape{Deltas: deltas, Rate: rate, Size: l.size, Last: last}
	return load.Request{Method: http.MethodGet, URL: l.bare.URL + "/stream?" + shape.Query(), Deltas: deltas}
}

// all reads n streams like r concurrently, each opened gap after the one before. It returns the results, and the time
// from the first request to the end of the last stream.
func (l *environment) all(ctx context.Context, n int, gap time.Duration, r load.Request) ([]load.Result, time.Duration, error) {
	results := make([]load.Result, n)
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range n {
		group.Go(func() error {
			time.Sleep(time.Duration(i)*gap - time.Since(start))
			result, err := l.client.Read(ctx, r)
			l.checked.Add(int64(result.Events))
			results[i] = result
			return err
		})
	}
	err := group.Wait()
	return results, time.Since(start), err
}

// hold opens n streams like r, a few at a time, and returns when all are open. They stay open until leave is called,
// which returns their first error.
func (l *environment) hold(ctx context.Context, n int, r load.Request) (leave func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	streams, streamCtx := errgroup.WithContext(ctx)
	opening := make(chan struct{}, 32)
	opened := make(chan struct{}, n)
	leave = func() error {
		cancel()
		return streams.Wait()
	}
	for range n {
		select {
		case opening <- struct{}{}:
		case <-streamCtx.Done():
			return nil, errors.Join(fmt.Errorf("open %d streams", n), leave())
		}
		streams.Go(func() error {
			return l.client.Hold(streamCtx, r, func() {
				<-opening
				opened <- struct{}{}
			})
		})
	}
	for range n {
		select {
		case <-opened:
		case <-streamCtx.Done():
			return nil, errors.Join(fmt.Errorf("open %d streams", n), leave())
		}
	}
	return leave, nil
}

// events returns the number of events in all results.
func events(results []load.Result) int {
	n := 0
	for _, r := range results {
		n += r.Events
	}
	return n
}
