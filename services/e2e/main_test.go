// Package e2e tests agentbus from outside, over HTTP, as its users run it.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	"github.com/agentbus/agentbus/services/e2e/aimock"
	"github.com/agentbus/agentbus/services/e2e/stack"
)

// base is the URL of the gateway under test.
var base string

// faults is what the stacks of the tests that kill processes start from; nil where everything is one process.
var faults *stack.Options

// provider answers for both providers, and remembers what it was shown.
var provider = new(eyes)

// recorded is a provider, with its tools, that plays recordings.
var recorded = new(player)

// mockMissing says why there is no mock of the providers' APIs; nil when there is one.
var mockMissing error

func TestMain(m *testing.M) {
	kind := flag.String("stack", string(stack.Dev), "what to test: dev, or processes")
	flag.Parse()
	code, err := runOn(m, stack.Kind(*kind))
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// runOn starts the stack, runs the tests against it and ends it.
func runOn(m *testing.M, kind stack.Kind) (code int, err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "agentbus-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder: the system clears what stays behind
	mock, err := startMock(ctx)
	switch {
	case errors.Is(err, aimock.ErrMissing) && os.Getenv("AGENTBUS_REQUIRE_SERVERS") != "1":
		mockMissing = err
	case err != nil:
		return 1, err
	default:
		defer func() { err = errors.Join(err, mock.Stop()) }()
	}
	options := stack.Options{Kind: kind, Dir: dir}
	eyes := httptest.NewServer(provider)
	defer eyes.Close()
	site := httptest.NewServer(mcptest.Handler(mcptest.New(func() {})))
	defer site.Close()
	played := httptest.NewServer(recorded)
	defer played.Close()
	if options.Config, err = writeConfig(dir, mock, eyes.URL, site.URL, played.URL); err != nil {
		return 1, err
	}
	if kind == stack.Processes {
		if options.Database, err = pgtest.Server(); err != nil {
			return 1, err
		}
	}
	s, err := stack.Start(ctx, options)
	if err != nil {
		return 1, err
	}
	defer func() { // before its end, which waits for them
		_ = site.Listener.Close() // first: a client could connect again
		site.CloseClientConnections()
	}()
	defer s.Stop()
	base = s.URL
	if kind == stack.Processes {
		faults = &stack.Options{Kind: kind, Binaries: dir}
	}
	code = m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, s.Logs())
	}
	return code, s.CheckPermissions()
}

// startMock starts the mock of the providers' APIs; aimock.ErrMissing without node and npm.
func startMock(ctx context.Context) (*aimock.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // the first time, npm fetches the package
	defer cancel()
	return aimock.Start(ctx, "aimock", "testdata/models.json")
}

// writeConfig writes the configuration of the stack, with agents on the mock if there is one and on the providers at eyes and
// played, and returns its path.
func writeConfig(dir string, mock *aimock.Server, eyes, site, played string) (string, error) {
	text, err := os.ReadFile("testdata/config.yaml")
	if err != nil {
		return "", err
	}
	text = bytes.ReplaceAll(text, []byte("recorded.test"), []byte(strings.TrimPrefix(played, "http://")))
	for _, name := range []string{"opencode", "codex"} {
		program, err := filepath.Abs(filepath.Join("testdata", name))
		if err != nil {
			return "", err
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	agents := map[string]string{"testdata/eyes.yaml": eyes, "testdata/program.yaml": dir}
	if mock != nil {
		agents["testdata/models.yaml"] = mock.URL
	}
	for file, url := range agents {
		more, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text = append(text, fmt.Appendf(nil, string(more), url)...)
	}
	mcp, err := os.ReadFile("testdata/mcp.yaml") // the last: it ends the list of agents
	if err != nil {
		return "", err
	}
	text = append(text, fmt.Appendf(nil, string(mcp), site)...)
	path := filepath.Join(dir, "config.yaml")
	return path, os.WriteFile(path, text, 0o600)
}
