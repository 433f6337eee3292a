// Package observer collects the evidence of a run: what the streams hold, what SQL holds, what the tools and services
// noted, and what the processes still hold on to. It reads NATS and SQL by itself, for it must not trust the code that
// is under test.
package observer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/go-json-experiment/json"
)

// Observer looks at one cluster.
type Observer struct {
	Cluster *cluster.Cluster
	Log     *oplog.Log
	Limits  check.Limits

	before []held
}

// lookGap is the time between two looks at a cluster that comes to rest.
const lookGap = time.Second

// Settle waits until all work is done, at most for timeout, and returns the stored data. [Observer.Noted],
// [Observer.Held] and [Observer.View] add to it.
func (w *Observer) Settle(ctx context.Context, timeout time.Duration) (*check.Run, error) {
	deadline := time.Now().Add(timeout)
	for {
		run, err := w.look(ctx)
		late := time.Now().After(deadline)
		if err != nil && late {
			return nil, err
		}
		if err == nil && (late || len(run.Unsettled()) == 0) {
			return run, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookGap):
		}
	}
}

// look collects what may still change.
func (w *Observer) look(ctx context.Context) (*check.Run, error) {
	run := &check.Run{Begin: w.Log.Begin(), Entries: w.Log.Entries(), Limits: w.Limits}
	if err := readStreams(ctx, w.Cluster.NATSURL, run); err != nil {
		return nil, fmt.Errorf("read the streams: %w", err)
	}
	rows, err := readRows(ctx, w.Cluster.Database)
	if err != nil {
		return nil, fmt.Errorf("read the database: %w", err)
	}
	run.Rows = rows
	return run, nil
}

// Noted adds what the processes have written to files.
func (w *Observer) Noted(run *check.Run) error {
	if err := readLines(w.Cluster, ".journal", &run.Executions); err != nil {
		return err
	}
	if err := readLines(w.Cluster, ".marks", &run.Marks); err != nil {
		return err
	}
	w.readExits(run)
	return w.readLogs(run)
}

// readLines reads files of JSON lines. The last line of a process that was killed may be cut.
func readLines[T any](c *cluster.Cluster, suffix string, into *[]T) error {
	files, err := c.Files(suffix)
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			var value T
			if err := json.Unmarshal(line, &value); err != nil {
				if !bytes.HasSuffix(line, []byte("\n")) {
					continue
				}
				return fmt.Errorf("%s: %w: %.200s", name, err, line)
			}
			*into = append(*into, value)
		}
	}
	return nil
}

// breakdowns are what a line says of a Go program that breaks down, and of a service in which something did.
var breakdowns = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE)|"msg":"[^"]*panic`)

// readLogs looks for breakdowns and secrets in what our services have printed.
func (w *Observer) readLogs(run *check.Run) error {
	for _, kind := range testcluster.Services() {
		for _, n := range w.Cluster.Find(kind) {
			if err := w.readLog(n, run); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Observer) readLog(n *cluster.Node, run *check.Run) error {
	file, err := os.Open(n.LogFile())
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if breakdowns.Match(line) {
			run.Panics = append(run.Panics, fmt.Sprintf("%s broke down: %.400s", n.Name, bytes.TrimSpace(line)))
		}
		for _, secret := range w.Cluster.Secrets {
			if bytes.Contains(line, []byte(secret)) {
				run.Told = append(run.Told, fmt.Sprintf("%s prints a secret: %.100s", n.Name, line))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var errBadAnswer = errors.New("the answer cannot be read")
