package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/agentbus/agentbus/pkg/backend/internal/program"
)

const (
	// polite is how long a program that was asked to end has for it before it is killed.
	polite = 300 * time.Millisecond
	// linger is how long the output is read on when the program has gone.
	linger = 200 * time.Millisecond
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
	stdin io.Reader
	quiet time.Duration // without progress
	over  func()        // called when the output has ended; nil = nothing to do
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
	var stderr program.Tail
	group, err := program.Group(ctx, c.alone...)
	if err != nil {
		return ending{}, err
	}
	defer group.Kill()
	cmd := exec.CommandContext(ctx, c.path, c.args...) //nolint:gosec // the operator has chosen the program
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr = c.dir, c.env, c.stdin, &stderr
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
	if c.over != nil {
		c.over()
	}
	err = <-ended
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has gone; a child of it held on to a pipe
	}
	return ending{err: err, stderr: stderr.String()}, stopped
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

// says is the line of its standard error that says why the program failed.
func (e ending) says() string { return program.Reason(e.stderr) }
