package crowd

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Connections counts the connections of each address, as hooks of an [http.Server]. The zero value counts nothing. It
// is safe for concurrent use.
//
// A connection over the limit is served, so that its client can be told why it gets nothing else (see [Over]); one over
// twice the limit is closed, since not even that is owed to somebody who only ever connects.
type Connections struct {
	limit   int
	private bool
	quota   *Quota

	mu   sync.Mutex
	open map[net.Conn]string // by address
}

// NewConnections returns the count of connections for a server that allows an address limit of them. Addresses of
// private networks and of this machine count only when private says so: behind one there is a proxy as a rule, and all
// of its clients.
func NewConnections(limit int, private bool) *Connections {
	return &Connections{limit: limit, private: private, quota: NewQuota(limit), open: map[net.Conn]string{}}
}

// Limit has server count its connections.
func (c *Connections) Limit(server *http.Server) {
	server.ConnContext = c.enter
	server.ConnState = c.changed
}

type overKey struct{}

// Over reports whether a request came on a connection that is one too many.
func Over(ctx context.Context) bool {
	over, _ := ctx.Value(overKey{}).(bool)
	return over
}

func (c *Connections) enter(ctx context.Context, conn net.Conn) context.Context {
	addr := addressOf(conn.RemoteAddr().String())
	if c.limit == 0 || !addr.IsValid() || isPrivate(addr) && !c.private {
		return ctx
	}
	key := network(addr)
	n := c.quota.add(key, 2*c.limit)
	if n > 2*c.limit {
		_ = conn.Close() // the server finds out when it reads
		return ctx
	}
	c.mu.Lock()
	c.open[conn] = key
	c.mu.Unlock()
	if n > c.limit {
		return context.WithValue(ctx, overKey{}, true)
	}
	return ctx
}

func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	c.mu.Lock()
	key, counted := c.open[conn]
	delete(c.open, conn)
	c.mu.Unlock()
	if counted {
		c.quota.leave(key)
	}
}

// Network is what an address ("host:port") counts as: itself, or with IPv6 its /64, which one machine has to itself.
// It is "" for what is no address.
func Network(remote string) string {
	addr := addressOf(remote)
	if !addr.IsValid() {
		return ""
	}
	return network(addr)
}

func addressOf(remote string) netip.Addr {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{} // of a socket that is no part of a network
	}
	return parsed.Addr().Unmap().WithZone("")
}

func network(addr netip.Addr) string {
	if addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

func isPrivate(addr netip.Addr) bool {
	return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
}
