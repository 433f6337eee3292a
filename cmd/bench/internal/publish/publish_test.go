package publish_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/bench/internal/publish"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
)

// broker starts a server and returns its address.
func broker(t *testing.T) string {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestRunStoresEveryMessageAndCleansUp(t *testing.T) {
	t.Parallel()
	c, err := publish.Dial(t.Context(), broker(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	load := publish.Load{Stream: "BENCH", Subjects: 7, Messages: 1000, Size: 250, Window: 64}
	for range 2 { // the second run finds nothing of the first
		took, err := c.Run(load)
		if err != nil {
			t.Fatal(err)
		}
		if took <= 0 {
			t.Errorf("it took %v", took)
		}
	}
	if _, err := c.Messages("BENCH", ">"); err == nil || !strings.Contains(err.Error(), "stream not found") {
		t.Errorf("the stream is still there: %v", err)
	}
}

func TestRefusedMessagesAreErrors(t *testing.T) {
	t.Parallel()
	c, err := publish.Dial(t.Context(), broker(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var answer struct{}
	const config = `{"name":"FULL","subjects":["FULL.>"],"storage":"file","retention":"limits","discard":"new","num_replicas":1,"max_msgs":2}`
	if err := c.Request("$JS.API.STREAM.CREATE.FULL", []byte(config), &answer); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		err := c.Request("FULL.a", []byte("x"), &answer)
		if refused := err != nil; refused != (i == 2) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if n, err := c.Messages("FULL", "FULL.a"); err != nil || n != 2 {
		t.Errorf("got %d messages, %v; want 2", n, err)
	}
}

func TestDialReportsARefusedConnection(t *testing.T) {
	t.Parallel()
	if _, err := publish.Dial(t.Context(), "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "connect to NATS") {
		t.Errorf("got %v", err)
	}
}
