// Package proxy is a TCP proxy that disturbs connections: it adds latency, closes them, stalls them, and drops data of
// the server, so that writes succeed without a response.
package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Mode is what a proxy does to its connections.
type Mode struct {
	Latency time.Duration // of each piece in each direction
	Hang    bool          // nothing moves in either direction, not even the end of a connection, as in a network partition
	Deaf    bool          // what the server says is lost; what the client says arrives
}

// Proxy carries connections to one address. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	carriers sync.WaitGroup

	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed when mode changes, and replaced
	conns   map[net.Conn]struct{}
	closed  bool
}

// New listens on a loopback address and forwards connections to target. The caller must close the proxy.
func New(ctx context.Context, target string) (*Proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.carriers.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes what the proxy does, also to the connections that are open.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
}

// Reset cuts every open connection, as a crash of the machine in between does.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset instead of an orderly end; the close below counts
		}
		_ = conn.Close() // ends the goroutines that carry it
	}
}

// Close stops listening, cuts what is open and waits until nothing moves.
func (p *Proxy) Close() {
	_ = p.listener.Close() // ends accept
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Set(Mode{})
	p.Reset()
	p.carriers.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.carriers.Go(func() { p.carry(client) })
	}
}

// carry moves bytes in both directions until one of them ends.
func (p *Proxy) carry(client net.Conn) {
	defer p.drop(client)
	server, err := net.DialTimeout("tcp", p.target, 2*time.Second) //nolint:noctx // bounded, and Close waits for it
	if err != nil {
		return
	}
	defer p.drop(server)
	if !p.keep(client) || !p.keep(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		p.move(server, client, false)
		p.drop(server)
	})
	both.Go(func() {
		p.move(client, server, true)
		p.drop(client)
	})
	both.Wait()
}

func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) drop(conn net.Conn) {
	_ = conn.Close() // it may be closed already
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// move carries one direction. After bytes were swallowed the rest would make no sense, so the connection ends with the
// deafness.
func (p *Proxy) move(to io.Writer, from io.Reader, fromServer bool) {
	piece := make([]byte, 32<<10)
	deaf := false
	for {
		n, err := from.Read(piece)
		if err != nil {
			p.ready() // a partition hides the end of a connection too
			return
		}
		mode := p.ready()
		if fromServer && mode.Deaf {
			deaf = true
			continue
		}
		if deaf {
			return
		}
		time.Sleep(mode.Latency)
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// ready returns the mode once it lets bytes pass.
func (p *Proxy) ready() Mode {
	for {
		p.mu.Lock()
		mode, changed := p.mode, p.changed
		p.mu.Unlock()
		if !mode.Hang {
			return mode
		}
		<-changed
	}
}
