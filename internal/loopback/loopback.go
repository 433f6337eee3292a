// Package loopback assigns loopback addresses to servers that tests, the benchmark and the fault harness start.
package loopback

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range of the ports. It is below the range that systems use for outgoing connections, so that a server which ends and
// starts again finds its own port free.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// Ports assigns ports. The zero value starts at a random one. It is safe for concurrent use.
type Ports struct {
	mu   sync.Mutex
	last int // 0 = none was assigned yet
}

// Next returns an address, 127.0.0.1:port, that no process listens on and that p has not returned before. Another process
// can take it before the caller does.
func (p *Ports) Next(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == 0 {
		p.last = lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // a port is not a secret
	}
	var config net.ListenConfig
	var err error
	for range highestPort - lowestPort {
		if err = ctx.Err(); err != nil {
			break
		}
		if p.last++; p.last > highestPort {
			p.last = lowestPort
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.last))
		var listener net.Listener
		if listener, err = config.Listen(ctx, "tcp", addr); err == nil {
			return addr, listener.Close()
		}
	}
	return "", fmt.Errorf("find a free port of %d to %d: %w", lowestPort, highestPort, err)
}
