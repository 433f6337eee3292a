package limit

import "net"

// SendBuffer returns a listener that gives each TCP connection that it accepts from l a send buffer of n bytes. Without it
// the kernel lets the buffer of a connection grow to megabytes (net.ipv4.tcp_wmem), so that clients that read nothing keep
// memory that no budget of the process counts, and the processor is busy until all these buffers are full. Linux doubles n
// for its own records.
func SendBuffer(l net.Listener, n int) net.Listener { return &sendBuffer{l, n} }

type sendBuffer struct {
	net.Listener
	bytes int
}

func (l *sendBuffer) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(l.bytes) // fails on a connection that is gone already; its first use says so
	}
	return conn, nil
}
