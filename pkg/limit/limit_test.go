package limit_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/limit"
)

func TestAQuotaIsOfEachKey(t *testing.T) {
	t.Parallel()
	q := limit.NewQuota(2)
	leave, ok := q.Enter("a")
	if _, second := q.Enter("a"); !ok || !second {
		t.Fatal("two places are not given")
	}
	if _, ok := q.Enter("a"); ok {
		t.Error("a third place is given")
	}
	if _, ok := q.Enter("b"); !ok {
		t.Error("one key takes the places of another")
	}
	leave()
	if _, ok := q.Enter("a"); !ok {
		t.Error("a place that was given back is not given again")
	}
	if _, ok := q.Enter("a"); ok {
		t.Error("one place that was given back is given twice")
	}
}

func TestAQuotaWithoutALimit(t *testing.T) {
	t.Parallel()
	q := limit.NewQuota(0)
	for range 10_000 {
		if _, ok := q.Enter("a"); !ok {
			t.Fatal("a place is refused")
		}
	}
}

func TestAQuotaIsNeverExceeded(t *testing.T) {
	t.Parallel()
	const places = 5
	q := limit.NewQuota(places)
	var mu sync.Mutex
	var here, most int
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 200 {
				leave, ok := q.Enter("a")
				if !ok {
					continue
				}
				mu.Lock()
				here++
				most = max(most, here)
				mu.Unlock()
				mu.Lock()
				here--
				mu.Unlock()
				leave()
			}
		})
	}
	all.Wait()
	if most > places || most == 0 {
		t.Errorf("%d were here at once, want 1 to %d", most, places)
	}
	for i := range places {
		if _, ok := q.Enter("a"); !ok {
			t.Errorf("place %d was lost", i)
		}
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"8.8.8.8:1":                "8.8.8.8",
		"[::ffff:8.8.8.8]:1":       "8.8.8.8",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[2001:db8:1:2:9::]:1":     "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":         "fe80::/64",
		"@":                        "",
		"":                         "",
	}
	for remote, want := range tests {
		if got := limit.Network(remote); got != want {
			t.Errorf("%q: got %q, want %q", remote, got, want)
		}
	}
}

// served is a server that says of each connection whether it is one too many.
func served(t *testing.T, most int, private bool) (addr string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limit.Over(r.Context()) {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	server.Config.ConnContext = limit.Mark
	server.Listener = limit.NewConnections(most, private).Listen(server.Listener)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// ask opens a connection, asks once, and leaves it open; status 0 means that the connection was closed.
func ask(t *testing.T, addr string) (conn net.Conn, status int) {
	t.Helper()
	dialed, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	_ = dialed.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(dialed, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return dialed, 0
	}
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(dialed, answer); err != nil {
		return dialed, 0
	}
	return dialed, int(answer[9]-'0')*100 + int(answer[10]-'0')*10 + int(answer[11]-'0')
}

func TestConnectionsOverTheLimitGetAnErrorAndAreClosed(t *testing.T) {
	t.Parallel()
	addr := served(t, 2, true)
	var first net.Conn
	for i, want := range []int{200, 200, 429, 429, 0, 0} {
		conn, got := ask(t, addr)
		if i == 0 {
			first = conn
		}
		if got != want {
			t.Errorf("connection %d: got %d, want %d", i, got, want)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for { // the server notices in its own time
		conn, got := ask(t, addr)
		_ = conn.Close()
		if got == 429 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a place that was given back is not given again: got %d", got)
		}
	}
}

func TestConnectionsThatDoNotCount(t *testing.T) {
	t.Parallel()
	for what, addr := range map[string]string{
		"of private addresses, where a proxy is": served(t, 1, false), "where there is no limit": served(t, 0, true),
	} {
		for i := range 5 {
			if _, got := ask(t, addr); got != http.StatusOK {
				t.Errorf("%s: connection %d: got %d", what, i, got)
			}
		}
	}
}
