package testcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// startWait bounds the start of one process. It is long, because the machine can be slow and busy.
const startWait = time.Minute

// Group is the processes that were started together. The zero value is empty. It is safe for concurrent use.
type Group struct {
	mu  sync.Mutex
	all []*Process // in the order of their first start
}

// Start starts a process and waits until it is ready. The group contains the process also if it fails to start.
func (g *Group) Start(ctx context.Context, c Command) (*Process, error) {
	p := NewProcess(c)
	g.mu.Lock()
	g.all = append(g.all, p)
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	return p, p.Start(ctx)
}

// Processes returns the processes of a kind, in the order of their first start.
func (g *Group) Processes(kind Kind) []*Process {
	return slices.DeleteFunc(g.list(), func(p *Process) bool { return p.Kind != kind })
}

func (g *Group) list() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.all)
}

// Stop requests the orderly end of each process, the newest first, and waits for it.
func (g *Group) Stop() { g.end((*Process).Stop) }

// Kill ends all processes immediately.
func (g *Group) Kill() { g.end((*Process).Kill) }

func (g *Group) end(stop func(*Process)) {
	for _, p := range slices.Backward(g.list()) {
		stop(p)
	}
}

// Logs returns the output of all processes.
func (g *Group) Logs() string {
	var all strings.Builder
	for _, p := range g.list() {
		fmt.Fprintf(&all, "--- %s\n%s\n", p.Name, p.Log())
	}
	return all.String()
}
