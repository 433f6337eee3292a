// Package bustest gives tests a real bus: an embedded server for each test, alone or as a cluster of three.
package bustest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/nats-io/nats-server/v2/server"
)

// ackWait is short, so that tests which kill a worker do not wait long for the next.
const ackWait = 5 * time.Second

// New returns a provisioned bus on a fresh server. Both end with the test.
func New(t testing.TB) *bus.Bus {
	t.Helper()
	return NewServer(t).Connect(t, "test")
}

// Server is a server whose connections are made one by one: for tests with several services.
type Server struct{ embedded *embedded.Server }

// NewServer starts a provisioned server that ends with the test.
func NewServer(t testing.TB) Server {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b := dial(t, s.URL(), "provision")
	defer b.Close()
	provision(t, b, bus.Storage{Memory: true, AckWait: ackWait})
	return Server{s}
}

// URL is where the server listens.
func (s Server) URL() string { return s.embedded.URL() }

// Connect returns a new connection that ends with the test.
func (s Server) Connect(t testing.TB, name string) *bus.Bus {
	t.Helper()
	return connect(t, s.URL(), name)
}

// NewCluster returns a provisioned bus on a fresh cluster of three servers with three replicas. All end with the test.
func NewCluster(t testing.TB) *bus.Bus {
	t.Helper()
	urls := startCluster(t)
	b := dial(t, urls, "test")
	t.Cleanup(b.Close)
	provision(t, b, bus.Storage{Memory: true, Replicas: 3, AckWait: ackWait})
	return b
}

func connect(t testing.TB, url, name string) *bus.Bus {
	t.Helper()
	b := dial(t, url, name)
	t.Cleanup(b.Close)
	if err := b.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func dial(t testing.TB, url, name string) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Options{URL: url, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// provision retries, because a young cluster has no leader yet.
func provision(t testing.TB, b *bus.Bus, s bus.Storage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		err := b.Provision(attempt, s)
		done()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startCluster starts a cluster of three servers and returns their URLs.
func startCluster(t testing.TB) string {
	t.Helper()
	first, others := Electing(t)
	return first + "," + others()
}

// Electing starts the first server of a cluster of three. Alone it takes connections and elects no leader, so JetStream does
// not work until the others are started. That function returns their URLs. All servers end with the test.
func Electing(t testing.TB) (url string, others func() string) {
	t.Helper()
	ports, routes := make([]int, 3), make([]string, 3)
	for i := range ports {
		ports[i] = freePort(t)
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", ports[i])
	}
	start := func(i int) string {
		options := &server.Options{
			ServerName: fmt.Sprintf("n%d", i), JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Host: "127.0.0.1", Port: server.RANDOM_PORT, Routes: server.RoutesFromStr(strings.Join(routes, ",")),
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i]},
		}
		return startNode(t, options)
	}
	return start(0), func() string { return start(1) + "," + start(2) }
}

// startNode starts a server that ends with the test, and returns its URL.
func startNode(t testing.TB, o *server.Options) string {
	t.Helper()
	node, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	node.Start()
	t.Cleanup(func() {
		node.Shutdown()
		node.WaitForShutdown()
	})
	if !node.ReadyForConnections(time.Minute) {
		t.Fatalf("cluster node %s does not take connections", o.ServerName)
	}
	return node.ClientURL()
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
