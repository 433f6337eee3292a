package mcp

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/procgroup"
)

// leaveTime is how long a process may take to end when its input has ended, and once more when it was asked to.
const leaveTime = 2 * time.Second

// writeTime is how long a process may take to read a piece of a message. One that takes longer hangs.
const (
	writeTime  = 30 * time.Second
	writePiece = 64 << 10
)

// maxSaid is how much of what a process prints to its standard error is kept for explanations.
const maxSaid = 2 << 10

// child is a server that runs as a process, and all processes that it has begun.
type child struct {
	command  *exec.Cmd
	group    *procgroup.Group // ends with this process
	in       io.WriteCloser
	out      io.ReadCloser
	said     *lastWords
	patience time.Duration // for it to read a piece of a message

	ended   chan struct{} // closed when its output has ended
	end     func()
	leaving func() error
}

func start(o Options) (*child, error) {
	c := &child{said: new(lastWords), patience: writeTime, ended: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.ended) })
	c.leaving = sync.OnceValue(c.leave)
	c.command = exec.Command(o.Command, o.Args...) //nolint:gosec,noctx // the operator names it; Close ends it, no context
	c.command.Dir, c.command.Env = o.Dir, o.Env
	c.command.Stderr = c.said
	c.command.WaitDelay = leaveTime
	var err error
	if c.in, err = c.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Command, err)
	}
	if c.out, err = c.command.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Command, err)
	}
	if c.group, err = procgroup.New(nil); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Command, err)
	}
	c.group.Join(c.command)
	if err := c.command.Start(); err != nil {
		c.group.Kill()
		return nil, fmt.Errorf("start %s: %w", o.Command, err)
	}
	return c, nil
}

// Environment returns the default environment of a process, to which its configuration adds: variables that cannot be
// secrets.
func Environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Read reads what the process prints.
func (c *child) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Write writes to its input. A process that does not read is an error: a call to it would wait for ever, as would all after it.
func (c *child) Write(p []byte) (n int, err error) {
	for piece := range slices.Chunk(p, writePiece) {
		if pipe, ok := c.in.(interface{ SetWriteDeadline(t time.Time) error }); ok {
			_ = pipe.SetWriteDeadline(time.Now().Add(c.patience)) // not available: then the write waits
		}
		wrote, err := c.in.Write(piece)
		if n += wrote; err != nil {
			return n, fmt.Errorf("write to %s: %w", c.command.Path, err)
		}
	}
	return n, nil
}

// Close ends the process as MCP asks for: by the end of its input, then by SIGTERM, then by SIGKILL. The signals go to all
// processes of its group. It may be called twice.
func (c *child) Close() error { return c.leaving() }

func (c *child) leave() error {
	_ = c.in.Close() // a process that has ended has closed it already
	go c.drain()     // ends with the process's output: at the latest when it was killed
	if !c.leaves() {
		_ = c.group.Terminate() // fails when all of it has ended
		c.leaves()
	}
	c.group.Kill()
	_ = c.command.Wait() // a process that was killed did not succeed
	return nil
}

func (c *child) drain() {
	_, _ = io.Copy(io.Discard, c) // only its end counts
}

func (c *child) leaves() bool {
	select {
	case <-c.ended:
		return true
	case <-time.After(leaveTime):
		return false
	}
}

// lastWords keeps the end of what is written to it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxSaid; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

// String is what was kept, on one line.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(l.text), "\uFFFD")), " ")
}
