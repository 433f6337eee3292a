package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/agentbus/agentbus/pkg/skew"
)

// Node is a supervised process: if it ends and no caller has requested that, it is started again, as an orchestrator does. It
// is safe for concurrent use.
type Node struct {
	testcluster.Command
	process *testcluster.Process
	disk    *disk                       // that it writes to; nil = one whose power cannot be cut
	proxies map[testcluster.Kind][]Link // between it and the servers of each kind

	mu      sync.Mutex
	running bool // since the newest start; the supervisor has not seen the end yet
	up      bool // wanted
	asked   bool // to end
	closed  bool
	wake    chan struct{}
	gone    chan struct{} // closed when the supervisor has ended
	ahead   time.Duration // of the wall clock, from the next start on
	lost    int           // ends that the harness did not cause
	err     error         // of the newest attempt to start
}

// restartPause is what an orchestrator waits before it starts a process again.
const restartPause = 250 * time.Millisecond

// newNode supervises a process that is not wanted up yet. Close it.
func newNode(c testcluster.Command) *Node {
	n := &Node{process: testcluster.NewProcess(c), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	n.Command = n.process.Command
	go n.supervise()
	return n
}

// Proxies are those between the node and the servers of a kind.
func (n *Node) Proxies(to testcluster.Kind) []Link { return n.proxies[to] }

// Links are the proxies that join the node to the others: those to NATS, or those in front of it where it has none.
func (n *Node) Links() []Link {
	if n.Kind == testcluster.Agent {
		return n.proxies[testcluster.Agent]
	}
	return n.proxies[testcluster.NATS]
}

// all are the proxies of the node.
func (n *Node) all() []Link { return slices.Concat(slices.Collect(maps.Values(n.proxies))...) }

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

// step starts the process if it is wanted, and returns a channel that is closed at its end.
func (n *Node) step() (ended <-chan struct{}, closed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !n.up {
		return nil, n.closed
	}
	if ended, n.err = n.start(); n.err != nil {
		n.up = false
		return nil, false
	}
	n.running = true
	return ended, false
}

// ended records the end of the process, and reports whether no caller has requested it.
func (n *Node) ended() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = false
	if !n.asked {
		n.lost++
	}
	lost := !n.asked
	n.asked = false
	return lost
}

// start must be called with mu held.
func (n *Node) start() (ended <-chan struct{}, err error) {
	if n.disk != nil {
		if err := n.disk.on(); err != nil {
			return nil, fmt.Errorf("start %s: %w", n.Name, err)
		}
	}
	return n.process.Spawn(skew.Env + "=" + n.ahead.String())
}

// Skew sets the process' wall clock ahead, or back if ahead is negative, from its next start on. It needs programs of
// [Build].
func (n *Node) Skew(ahead time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ahead = ahead
}

// LogFile is the path of the node's output.
func (n *Node) LogFile() string { return n.process.LogFile() }

// Lost returns how often the process has ended unexpectedly.
func (n *Node) Lost() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// PID is the process's id; 0 while it is down.
func (n *Node) PID() int { return n.process.PID() }

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

// LosePower kills the process and drops what it has written to its disk without a sync. The disk is available again
// when the process restarts.
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

// stopWait is longer than the grace period of every service.
const stopWait = 30 * time.Second

// Terminate requests the end of the process, and waits until it has ended.
func (n *Node) Terminate() { n.down(n.Term, stopWait) }

// Crash sends a signal that ends the process, and waits until it has ended.
func (n *Node) Crash(signal syscall.Signal) { n.down(signal, stopWait) }

func (n *Node) down(signal syscall.Signal, timeout time.Duration) {
	n.mu.Lock()
	n.up = false
	n.asked = n.running
	running := n.running
	n.mu.Unlock()
	if running {
		n.process.End(signal, timeout)
	}
}

// Pause freezes the process until [Node.Resume].
func (n *Node) Pause() { n.process.Signal(syscall.SIGSTOP) }

// Resume continues a frozen process.
func (n *Node) Resume() { n.process.Signal(syscall.SIGCONT) }

// Ready waits until the node can be used. It fails immediately if its program cannot be started.
func (n *Node) Ready(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := testcluster.Await(ctx, func(ctx context.Context) error {
		n.mu.Lock()
		failed := n.err
		n.mu.Unlock()
		if failed != nil {
			cancel(failed)
			return failed
		}
		return n.Command.Ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w: %s", n.Name, err, n.process.Tail())
	}
	return nil
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
