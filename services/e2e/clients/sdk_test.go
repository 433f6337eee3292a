package clients

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// pageAddress returns a free address for the pages of the tests. Its port is below those that the stack assigns to itself.
func pageAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	var err error
	for range 100 {
		var listener net.Listener
		listener, err = config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(3000)))
		if err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", fmt.Errorf("find a free port for pages: %w", err)
}

// TestTypeScriptClient runs the tests of @agentbus/client in Node.js and in Chromium.
func TestTypeScriptClient(t *testing.T) {
	const dir = "../../../clients/typescript"
	if _, err := os.Stat(dir + "/node_modules"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("make test-clients installs what the tests need")
	}
	_, port, _ := strings.Cut(page, ":")
	sdk(t, dir, []string{"AGENTBUS_PAGE_PORT=" + port}, "npm", "test")
}

// TestPythonClient runs the tests of the package for Python, with the python3 of the machine.
func TestPythonClient(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	sdk(t, "../../../clients/python", []string{"PYTHONPATH=src"}, "python3", "-m", "unittest", "discover", "-s", "tests")
}

// sdk runs the tests of a package of clients/ against the gateways.
func sdk(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	command.Env = append(append(os.Environ(), "AGENTBUS_URLS="+strings.Join(gateways, ",")), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", dir, err, out)
		return
	}
	t.Logf("%s", out)
}
