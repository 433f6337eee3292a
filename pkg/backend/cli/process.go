package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/procgroup"
)

const (
	// polite is how long a program that was asked to end has for it before it is killed.
	polite = 300 * time.Millisecond
	// lockWait is how long a program waits for another one that works in the same session.
	lockWait = 15 * time.Second
	// linger is how long the output is read on when the program has gone.
	linger = 200 * time.Millisecond
	// maxTail bounds what is kept of its standard error.
	maxTail = 8 << 10
	// maxSaid limits the part of it that an error message quotes.
	maxSaid = 300
	// readSize is how much output is read at once.
	readSize = 64 << 10
)

// errQuiet is why a program was stopped that printed nothing that counts.
var errQuiet = errors.New("the program did not get on")

// command is a program to be run.
type command struct {
	path  string
	args  []string
	dir   string
	env   []string
	stdin string
	quiet time.Duration // without progress
	alone []string      // names of what one program at a time works on
}

// ending is how a program ended. As an error it is for logs.
type ending struct {
	err    error // of the program; nil = it ended well
	stderr string
}

// Error makes an ending the cause of an error.
func (e ending) Error() string { return fmt.Sprintf("%v; it printed: %s", e.err, e.stderr) }

// run starts the program, hands its output to read, which reports progress, and waits for its end and that of all that it
// has started. It returns why the program was stopped: read's error, ctx's, errQuiet; or that it could not be started.
func (c command) run(ctx context.Context, read func([]byte) (bool, error)) (ending, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stderr tail
	group, err := c.group(ctx)
	if err != nil {
		return ending{}, err
	}
	defer group.Kill()
	cmd := exec.CommandContext(ctx, c.path, c.args...) //nolint:gosec // the operator has chosen the program
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr = c.dir, c.env, strings.NewReader(c.stdin), &stderr
	cmd.Cancel, cmd.WaitDelay = group.Terminate, polite
	group.Join(cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return ending{}, fmt.Errorf("open a pipe: %w", err)
	}
	defer func() { _ = out.Close() }() // all of it was read, or is not needed
	cmd.Stdout = in
	err = cmd.Start()
	_ = in.Close() // the program has its own
	if err != nil {
		return ending{}, fmt.Errorf("start %s: %w", c.path, err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		group.Kill()
		_ = out.SetReadDeadline(time.Now().Add(linger)) // some child may have left the group and hold the pipe
		ended <- err
	}()
	stopped := c.follow(ctx, cancel, out, read)
	err = <-ended
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has gone; a child of it held on to a pipe
	}
	return ending{err: err, stderr: stderr.String()}, stopped
}

// group is the process group for the program, which ends with this process. A program of a runner that has just died may
// still be there for a moment: two at a time must not work on the same.
func (c command) group(ctx context.Context) (*procgroup.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock, err := procgroup.Acquire(ctx, c.alone...)
	if err != nil {
		return nil, err
	}
	return procgroup.New(lock)
}

// follow reads the output to its end, and stops the program when it does not get on.
func (c command) follow(ctx context.Context, cancel context.CancelCauseFunc, out io.Reader, read func([]byte) (bool, error)) error {
	last := time.Now()
	quiet := time.AfterFunc(c.quiet, func() { cancel(errQuiet) })
	defer quiet.Stop()
	buffer := make([]byte, readSize)
	for {
		n, err := out.Read(buffer)
		quiet.Stop()
		if n > 0 && ctx.Err() == nil {
			progress, err := read(buffer[:n])
			if err != nil {
				cancel(err)
			}
			if progress {
				last = time.Now()
			}
		}
		if err != nil {
			return context.Cause(ctx)
		}
		quiet.Reset(time.Until(last.Add(c.quiet)))
	}
}

// tail keeps the end of what is written.
type tail struct{ kept []byte }

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, len(p)-maxTail):]
	t.kept = append(t.kept[max(0, min(len(t.kept), len(t.kept)+len(p)-maxTail)):], p...)
	return n, nil
}

// String is what was kept.
func (t *tail) String() string { return strings.ToValidUTF8(string(t.kept), "\uFFFD") }

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// says is the line of its standard error that says why the program failed: the last that begins with "Error", or the last.
func (e ending) says() string {
	said := ""
	named := false
	for line := range strings.Lines(escapes.ReplaceAllString(e.stderr, "")) {
		line = strings.TrimSpace(line)
		names := strings.HasPrefix(strings.ToLower(line), "error")
		if line == "" || named && !names {
			continue
		}
		said, named = line, names
	}
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[:maxSaid], "") + " […]"
	}
	return said
}
