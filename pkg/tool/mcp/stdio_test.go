package mcp

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestAProcessThatDoesNotReadIsAnError(t *testing.T) {
	t.Parallel()
	c, err := start(Options{Command: "sleep", Args: []string{"600"}, Env: Environment()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.patience = 50 * time.Millisecond
	if n, err := c.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 1<<20 {
		t.Errorf("got %d bytes written, %v; want that the process does not read", n, err)
	}
}
