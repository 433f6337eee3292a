package limit

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// Connections counts the connections of each address. It is safe for concurrent use.
//
// A connection over the limit is served with an error (see [Over]); one over twice the limit is closed without a
// response.
type Connections struct {
	limit   int
	private bool
	quota   *Quota
}

// NewConnections returns the count of connections for a server that allows an address limit of them. Addresses of
// private networks and of this machine are counted only if private is true: usually they are those of a proxy that
// forwards the connections of all its clients.
func NewConnections(limit int, private bool) *Connections {
	return &Connections{limit: limit, private: private, quota: NewQuota(limit)}
}

// Listen returns a listener that counts each connection that it accepts from l until it is closed, also after a hijack.
func (c *Connections) Listen(l net.Listener) net.Listener { return &listener{l, c} }

type listener struct {
	net.Listener
	count *Connections
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.count.enter(conn); counted != nil {
			return counted, nil
		}
		_ = conn.Close() // closed without a response
	}
}

// connection is a connection that counts.
type connection struct {
	net.Conn
	over  bool
	leave func() // counts once
}

func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

// enter returns nil for a connection over twice the limit.
func (c *Connections) enter(conn net.Conn) net.Conn {
	addr := addressOf(conn.RemoteAddr().String())
	if c.limit == 0 || !addr.IsValid() || isPrivate(addr) && !c.private {
		return conn
	}
	key := network(addr)
	n := c.quota.add(key, 2*c.limit)
	if n > 2*c.limit {
		return nil
	}
	return &connection{Conn: conn, over: n > c.limit, leave: sync.OnceFunc(func() { c.quota.leave(key) })}
}

type overKey struct{}

// Mark is the ConnContext of a server whose connections are counted: [Over] needs it.
func Mark(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn() // of *tls.Conn
	}
	if c, ok := conn.(*connection); ok && c.over {
		return context.WithValue(ctx, overKey{}, true)
	}
	return ctx
}

// Over reports whether a request came on a connection that is one too many.
func Over(ctx context.Context) bool {
	over, _ := ctx.Value(overKey{}).(bool)
	return over
}

// Network returns the key under which an address ("host:port") is counted: the address, or its /64 with IPv6, which one
// machine has for itself. It returns "" if remote is not an address.
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
		return netip.Addr{} // a socket outside a network
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
