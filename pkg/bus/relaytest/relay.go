// Package relaytest is a TCP relay whose connections a test can cut.
package relaytest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Relay passes connections on to a server, and can cut them and refuse new ones.
type Relay struct {
	net.Listener
	target string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

// New returns a relay to the address of a server. It ends with the test.
func New(t testing.TB, target string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Listener: l, target: target, conns: map[net.Conn]struct{}{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.SetCut(true)
		all.Wait()
	})
	return r
}

func (r *Relay) pass(client net.Conn) {
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		_ = client.Close()
		return
	}
	r.mu.Lock()
	if r.cut {
		_ = client.Close()
		_ = server.Close()
	}
	r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, client)
	delete(r.conns, server)
}

// SetCut cuts all connections and refuses new ones, or stops to.
func (r *Relay) SetCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for c := range r.conns {
		if cut {
			_ = c.Close()
		}
	}
}
