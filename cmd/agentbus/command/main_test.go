package command

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/go-json-experiment/json"
)

// TestMain lets the test binary be the program itself, for the tests that need a process.
func TestMain(m *testing.M) {
	if os.Getenv("AGENTBUS_TEST_PROGRAM") != "" {
		Main(app.Extensions{})
		return
	}
	os.Exit(m.Run())
}

// shared is the stack of all tests that do not need one of their own.
var shared = sync.OnceValue(func() stack {
	s, err := startDev(context.Background())
	if err != nil {
		panic(err)
	}
	return s
})

// stack is a running `agentbus dev`.
type stack struct {
	URL  string `json:"url"`
	NATS string `json:"nats"`
	Key  string `json:"key"`

	stop context.CancelFunc
	done <-chan int // the exit code
	log  *buffer
}

// startDev runs `agentbus dev` in this process until stop, or ctx's end.
func startDev(ctx context.Context, args ...string) (stack, error) {
	ctx, stop := context.WithCancel(ctx)
	read, write := io.Pipe()
	done := make(chan int, 1)
	log := &buffer{}
	args = append([]string{"dev", "--json", "--addr=127.0.0.1:0", "--nats-addr=127.0.0.1:0"}, args...)
	go func() {
		code := run(ctx, args, &console{out: write, err: log, getenv: noEnvironment})
		_ = write.CloseWithError(io.ErrUnexpectedEOF)
		done <- code
	}()
	s := stack{stop: stop, done: done, log: log}
	first, err := bufio.NewReader(read).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(first, &s)
	}
	if err != nil {
		stop()
		return stack{}, fmt.Errorf("%w: %s", err, log)
	}
	return s, nil
}

func noEnvironment(string) string { return "" }

// own starts a stack for one test.
func own(t *testing.T, args ...string) stack {
	t.Helper()
	s, err := startDev(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(t) })
	return s
}

// end stops the stack, and waits for it.
func (s stack) end(t *testing.T) {
	t.Helper()
	s.stop()
	select {
	case code := <-s.done:
		if code != 0 {
			t.Errorf("dev ended with %d: %s", code, s.log)
		}
	case <-time.After(40 * time.Second):
		t.Error("dev does not stop")
	}
}

// buffer is a bytes.Buffer for several goroutines, which signals each write.
type buffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // nil = no goroutine waits
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await waits until the text contains want.
func (b *buffer) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		b.mu.Lock()
		if strings.Contains(b.text.String(), want) {
			b.mu.Unlock()
			return
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q did not come; there is %q", want, b)
		}
	}
}

// command is a command line under way.
type command struct {
	out, err   *buffer
	in         *io.PipeWriter
	interrupts chan os.Signal
	code       chan int
}

// begin starts a command line; what it reads comes from type, until hangUp.
func begin(t *testing.T, env map[string]string, args ...string) *command {
	t.Helper()
	read, write := io.Pipe()
	c := &command{out: &buffer{}, err: &buffer{}, in: write, interrupts: make(chan os.Signal, 2), code: make(chan int, 1)}
	go func() {
		c.code <- run(t.Context(), args, &console{
			in: read, out: c.out, err: c.err, getenv: func(name string) string { return env[name] },
			signals: func() (<-chan os.Signal, func()) { return c.interrupts, func() {} },
		})
		_ = read.Close()
	}()
	t.Cleanup(func() { _ = write.Close() })
	return c
}

func (c *command) types(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatalf("%q is not read: %v (%s)", line, err, c.err)
	}
}

func (c *command) wait(t *testing.T, code int) (out, err string) {
	t.Helper()
	select {
	case got := <-c.code:
		if got != code {
			t.Errorf("exit code %d, want %d; it said %q and %q", got, code, c.out, c.err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it does not end; it said %q and %q", c.out, c.err)
	}
	return c.out.String(), c.err.String()
}

// execute runs a command line that reads nothing.
func execute(t *testing.T, code int, args ...string) (out, err string) {
	t.Helper()
	c := begin(t, nil, args...)
	_ = c.in.Close()
	return c.wait(t, code)
}

// at puts the address of a stack before args.
func (s stack) at(args ...string) []string {
	return append([]string{"--url=" + s.URL, "--key=" + s.Key}, args...)
}
