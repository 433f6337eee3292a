// Package e2e tests agentbus from outside, over HTTP, as its users run it.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/services/e2e/stack"
)

// base is the URL of the gateway under test.
var base string

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
	if testing.Short() {
		return 0, nil
	}
	dir, err := os.MkdirTemp("", "agentbus-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder: the system clears what stays behind
	config, err := filepath.Abs("testdata/config.yaml")
	if err != nil {
		return 1, err
	}
	options := stack.Options{Kind: kind, Dir: dir, Config: config}
	if kind == stack.Processes {
		if options.Database, err = pgtest.Server(); err != nil {
			return 1, err
		}
	}
	s, err := stack.Start(context.Background(), options)
	if err != nil {
		return 1, err
	}
	defer s.Stop()
	base = s.URL
	code = m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, s.Logs())
	}
	return code, nil
}
