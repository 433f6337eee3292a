package clients

import (
	"context"
	"encoding/base64"
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

// The addresses that the configuration names, and on which the tests of clients/ serve.
var (
	page            string // pages that use the gateways from another origin
	typeScriptAgent string
	pythonAgent     string
	upstream        string // agents of other protocols, which a file of tests serves
	receiver        string // of push notifications, which a file of tests serves
	hooks           string // receiver of the webhook in the configuration
	mcpServer       string // an MCP server by HTTP, which a file of tests starts
)

// signingKey signs the requests to the agents of the tests.
var signingKey = "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of the end-to-end tests"))

// assignAddresses selects free addresses. Their ports are below those that the stack assigns to itself.
func assignAddresses(ctx context.Context) error {
	var config net.ListenConfig
	for _, address := range []*string{&page, &typeScriptAgent, &pythonAgent, &upstream, &receiver, &hooks, &mcpServer} {
		var listener net.Listener
		err := errors.ErrUnsupported
		for attempt := 0; err != nil; attempt++ {
			if listener, err = config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(3000))); attempt == 100 {
				return fmt.Errorf("find a free port: %w", err)
			}
		}
		defer listener.Close() // after all are selected, so that they differ
		*address = listener.Addr().String()
	}
	return nil
}

// TestTypeScriptClient runs the tests of @agentbus/client in Node.js and in Chromium.
func TestTypeScriptClient(t *testing.T) {
	_, port, _ := strings.Cut(page, ":")
	npm(t, "../../../clients/typescript", "AGENTBUS_PAGE_PORT="+port)
}

// TestTypeScriptAgent runs the tests of @agentbus/agent, whose agent serves the agent "typescript" of the configuration.
func TestTypeScriptAgent(t *testing.T) {
	npm(t, "../../../clients/typescript-agent",
		"AGENTBUS_AGENT=typescript", "AGENTBUS_AGENT_ADDRESS="+typeScriptAgent, "AGENTBUS_AGENT_KEY="+signingKey)
}

// TestPython runs the tests of the package for Python, whose agent serves the agent "python" of the configuration.
func TestPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	command := exec.CommandContext(t.Context(), "python3", "-m", "unittest", "discover", "-s", "tests")
	sdk(t, command, "../../../clients/python",
		"PYTHONPATH=src", "AGENTBUS_AGENT=python", "AGENTBUS_AGENT_ADDRESS="+pythonAgent, "AGENTBUS_AGENT_KEY="+signingKey)
}

func npm(t *testing.T, dir string, env ...string) {
	t.Helper()
	if _, err := os.Stat(dir + "/node_modules"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("make test-clients installs what the tests need")
	}
	sdk(t, exec.CommandContext(t.Context(), "npm", "test"), dir, env...)
}

// sdk runs the tests of a package of clients/ against the gateways.
func sdk(t *testing.T, command *exec.Cmd, dir string, env ...string) {
	t.Helper()
	command.Dir = dir
	command.Env = append(append(os.Environ(), "AGENTBUS_URLS="+strings.Join(gateways, ",")), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", dir, err, out)
		return
	}
	t.Logf("%s", out)
}
