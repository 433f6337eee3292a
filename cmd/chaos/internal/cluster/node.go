package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/pkg/procgroup"
	"github.com/agentbus/agentbus/pkg/skew"
)

// Kind says what a node is.
type Kind string

// The kinds.
const (
	NATS     Kind = "nats"
	Redis    Kind = "redis"
	Postgres Kind = "postgres"
	Gateway  Kind = "gateway"
	Runner   Kind = "agent-runner"
	Executor Kind = "tool-executor"
	History  Kind = "history"
	Hub      Kind = "hub"
	Agent    Kind = "agent-server"
)

// Services lists the kinds that are ours.
func Services() []Kind { return []Kind{Gateway, Runner, Executor, History, Hub, Agent} }

// count is how many of a service there are. There is one hub, and an agent-server for each tenant.
func (k Kind) count() int {
	switch k {
	case Hub:
		return 1
	case Agent:
		return len(Tenants())
	}
	return 2
}

// program is what a node runs.
type program struct {
	name  string
	kind  Kind
	path  string
	args  []string
	env   []string // besides PATH and HOME
	dir   string   // HOME, and where <name>.log holds what it prints
	disk  *disk    // that it writes to; nil = one whose power cannot be cut
	as    *syscall.Credential
	term  syscall.Signal              // asks for an orderly end; 0 = SIGTERM
	ready func(context.Context) error // nil once it may be used
}

// Node is a process under supervision: while it is wanted up and ends, it is started again, as an orchestrator does. It
// is safe for concurrent use.
type Node struct {
	program
	Addr    string            // where clients reach it
	Admin   string            // URL of its metrics; "" = none
	proxies map[Kind][]Spoilt // between it and the servers of each kind

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil while it is down
	done   chan struct{} // closed when cmd has ended
	up     bool          // wanted
	asked  bool          // to end
	closed bool
	wake   chan struct{}
	gone   chan struct{} // closed when the supervisor has ended
	starts int
	ahead  time.Duration // of the wall clock, from the next start on
	lost   int           // ends that the harness did not cause
	err    error         // of the newest attempt to start
}

// restartPause is what an orchestrator waits before it starts a process again.
const restartPause = 250 * time.Millisecond

// newNode supervises a program that is not wanted up yet. Close it.
func newNode(p program) *Node {
	if p.term == 0 {
		p.term = syscall.SIGTERM
	}
	n := &Node{program: p, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	go n.supervise()
	return n
}

// Name is the node's own.
func (n *Node) Name() string { return n.name }

// Kind is what it is.
func (n *Node) Kind() Kind { return n.kind }

// Proxies are those between the node and the servers of a kind.
func (n *Node) Proxies(to Kind) []Spoilt { return n.proxies[to] }

// Links are the proxies that join the node to the others: those to NATS, or those in front of it where it has none.
func (n *Node) Links() []Spoilt {
	if n.kind == Agent {
		return n.proxies[Agent]
	}
	return n.proxies[NATS]
}

// all are the proxies of the node.
func (n *Node) all() []Spoilt { return slices.Concat(slices.Collect(maps.Values(n.proxies))...) }

func (n *Node) supervise() {
	defer close(n.gone)
	for {
		done, closed := n.step()
		if closed {
			return
		}
		if done == nil {
			<-n.wake
			continue
		}
		<-done
		if n.ended() {
			time.Sleep(restartPause)
		}
	}
}

// step starts the process if it is wanted, and returns what tells of its end.
func (n *Node) step() (done chan struct{}, closed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !n.up {
		return nil, n.closed
	}
	if n.err = n.start(); n.err != nil {
		n.up = false
		return nil, false
	}
	return n.done, false
}

// ended notes the end of the process, and reports whether nobody asked for it.
func (n *Node) ended() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cmd = nil
	if !n.asked {
		n.lost++
	}
	lost := !n.asked
	n.asked = false
	return lost
}

// start must be called with mu held.
func (n *Node) start() error {
	if n.disk != nil {
		if err := n.disk.on(); err != nil {
			return fmt.Errorf("start %s: %w", n.name, err)
		}
	}
	output, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()  // the child has its own handle
	cmd := exec.Command(n.path, n.args...) //nolint:gosec,noctx // a server of ours; the supervisor ends it
	cmd.Dir = n.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, skew.Env + "=" + n.ahead.String()}, n.env...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: n.as}
	procgroup.EndWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.starts++
	done := make(chan struct{})
	n.cmd, n.done = cmd, done
	go func() { // ends with the process
		_ = cmd.Wait() // how it ended stands in its log
		close(done)
	}()
	return nil
}

// Skew has the process' wall clock run ahead by so much, or behind where it is negative, from its next start on. Only
// programs of [Build] obey.
func (n *Node) Skew(ahead time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ahead = ahead
}

// LogFile is where the node's output goes.
func (n *Node) LogFile() string { return filepath.Join(n.dir, n.name+".log") }

// Lost is how often the process has ended though nobody asked it to.
func (n *Node) Lost() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// PID is the process's id; 0 while it is down.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Up wants the node up, and does not wait for it.
func (n *Node) Up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = true
	n.poke()
}

// poke must be called with mu held.
func (n *Node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Kill ends the process at once, as a crash does.
func (n *Node) Kill() { n.down(syscall.SIGKILL, 10*time.Second) }

// LosePower ends the process at once, and with it goes what it has written to its disk and not synced. The disk is back
// when the process is.
func (n *Node) LosePower() {
	n.Kill()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk.cut()
}

// FillDisk leaves the process no space until [Node.FreeDisk].
func (n *Node) FillDisk() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk.fill()
}

// FreeDisk gives the space back that [Node.FillDisk] took.
func (n *Node) FreeDisk() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disk.free()
}

// stopWait is more than the grace of every service.
const stopWait = 30 * time.Second

// Terminate asks the process to end, and waits until it has.
func (n *Node) Terminate() { n.down(n.term, stopWait) }

// Crash sends a signal that ends the process, and waits until it has.
func (n *Node) Crash(signal syscall.Signal) { n.down(signal, stopWait) }

func (n *Node) down(signal syscall.Signal, patience time.Duration) {
	n.mu.Lock()
	n.up = false
	cmd, done := n.cmd, n.done
	n.asked = cmd != nil
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(signal) // fails only when it has ended
	select {
	case <-done:
	case <-time.After(patience):
		_ = cmd.Process.Kill() // as above
		<-done
	}
}

// Pause freezes the process until [Node.Resume].
func (n *Node) Pause() { n.signal(syscall.SIGSTOP) }

// Resume lets a frozen process go on.
func (n *Node) Resume() { n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(s) // fails only when it has ended
	}
}

// Ready waits until the node may be used.
func (n *Node) Ready(ctx context.Context) error {
	for {
		n.mu.Lock()
		failed := n.err
		n.mu.Unlock()
		if failed != nil {
			return failed
		}
		err := n.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", n.name, errors.Join(err, context.Cause(ctx)), n.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tail is the end of what the process printed.
func (n *Node) tail() string {
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// close ends the process and its supervisor.
func (n *Node) close() {
	n.Kill()
	n.mu.Lock()
	n.closed = true
	n.poke()
	n.mu.Unlock()
	<-n.gone
}

// answers is a check that GET url gives 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}
