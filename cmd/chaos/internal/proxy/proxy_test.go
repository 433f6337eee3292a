package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a server that sends back what it gets, and counts it.
func echo(t *testing.T) (addr string, received *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	received = new(atomic.Int64)
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(io.MultiWriter(conn, counter{received}), conn)
			}()
		}
	}()
	return listener.Addr().String(), received
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func open(t *testing.T) (*Proxy, net.Conn, *atomic.Int64) {
	t.Helper()
	target, received := echo(t)
	p, err := New(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return p, conn, received
}

// say sends four bytes and returns how long the echo took, or why there was none within wait.
func say(t *testing.T, conn net.Conn, wait time.Duration) (time.Duration, error) {
	t.Helper()
	begin := time.Now()
	if err := conn.SetDeadline(begin.Add(wait)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("ping")); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(conn, make([]byte, 4))
	return time.Since(begin), err
}

func TestWithoutFaultsBytesPass(t *testing.T) {
	t.Parallel()
	_, conn, _ := open(t)
	for range 3 {
		if _, err := say(t, conn, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLatencyDelaysBothDirections(t *testing.T) {
	t.Parallel()
	p, conn, _ := open(t)
	p.Set(Mode{Latency: 50 * time.Millisecond})
	took, err := say(t, conn, 10*time.Second)
	if err != nil || took < 100*time.Millisecond {
		t.Errorf("took %v, %v; want at least 100ms", took, err)
	}
}

func TestStalledConnectionContinues(t *testing.T) {
	t.Parallel()
	p, conn, received := open(t)
	p.Set(Mode{Hang: true})
	if _, err := say(t, conn, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) || received.Load() != 0 {
		t.Fatalf("got %v, and the server got %d bytes; want silence", err, received.Load())
	}
	p.Set(Mode{})
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Errorf("what was held back did not come: %v", err)
	}
}

func TestDeafProxyForwardsTheClient(t *testing.T) {
	t.Parallel()
	p, conn, received := open(t)
	p.Set(Mode{Deaf: true})
	if _, err := say(t, conn, 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) || received.Load() != 4 {
		t.Fatalf("got %v, and the server got %d bytes; want 4 and no answer", err, received.Load())
	}
	p.Set(Mode{})
	if _, err := say(t, conn, 10*time.Second); err == nil {
		t.Error("the connection continues, although a part of it is missing")
	}
}

func TestAResetCutsWhatIsOpenAndNothingElse(t *testing.T) {
	t.Parallel()
	p, conn, _ := open(t)
	if _, err := say(t, conn, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Reset()
	if _, err := say(t, conn, 10*time.Second); err == nil {
		t.Error("the connection is still open")
	}
	again, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if _, err := say(t, again, 10*time.Second); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsAConnectionThatHangs(t *testing.T) {
	t.Parallel()
	p, conn, _ := open(t)
	p.Set(Mode{Hang: true})
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := say(t, conn, 10*time.Second); err == nil {
		t.Error("the connection is still open")
	}
}

func TestAPartitionHidesTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p, err := New(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	p.Set(Mode{Hang: true})
	_ = client.Close()
	if err := server.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server read %v during the partition, want nothing", err)
	}
	p.Set(Mode{})
	if err := server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the server read %v after the partition, want the end of the connection", err)
	}
}
