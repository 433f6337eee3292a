package limit_test

import (
	"net"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/limit"
)

// taken returns how many bytes a connection from l takes, of 16 MiB, whose client reads nothing.
func taken(t *testing.T, l net.Listener) int {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	part, sum := make([]byte, 64<<10), 0
	for sum < 16<<20 {
		if err := conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Write(part)
		sum += n
		if err != nil {
			break
		}
	}
	return sum
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestTheKernelBuffersLittleForAClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	const most = 1 << 20 // the client's own buffer is a part of it
	if n := taken(t, limit.SendBuffer(listen(t), 64<<10)); n > most {
		t.Errorf("the kernel takes %d bytes, want %d at most", n, most)
	}
}
