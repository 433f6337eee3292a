// Package docs follows pages of the documentation literally: it writes their files, runs their commands against
// `agentbus dev`, and checks what they print.
//
// Where python3, npm or Chromium is missing, the tests that need it are skipped, unless AGENTBUS_REQUIRE_SERVERS is 1.
package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/services/e2e/stack"
)

// binaries has the program that the first server was built from, for the servers after it.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "agentbus-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
	binaries = dir
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "agentbus"), "./cmd/agentbus")
	build.Dir = root
	code := 1
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "docs: build agentbus: %v\n%s", err, output)
	} else {
		code = m.Run()
	}
	cancel()
	_ = os.RemoveAll(dir) // a temporary folder: the system clears what stays
	os.Exit(code)
}

// serve starts the `agentbus dev` of a folder with a configuration file, "" = none, and returns its URL.
func serve(t *testing.T, config, binaries string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	if config == "" {
		config = filepath.Join(dir, "empty.yaml")
		if err := os.WriteFile(config, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := stack.Start(ctx, stack.Options{Kind: stack.Dev, Dir: dir, Config: config, Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s.URL
}

// need skips the test if a program is not installed, or fails it if all must be.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("AGENTBUS_REQUIRE_SERVERS") == "1" {
		t.Fatalf("%s is needed", program)
	}
	t.Skipf("%s is needed", program)
}

// shell runs commands in a folder, with url as AGENTBUS_URL and a text as standard input, and returns what they print.
func shell(t *testing.T, dir, url, input, commands string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	command.Dir, command.Stdin = dir, strings.NewReader(input)
	command.Env = append(os.Environ(), "AGENTBUS_URL="+url)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, output)
	}
	return string(output)
}

// wantTexts fails the test unless a text contains all of want, in this order.
func wantTexts(t *testing.T, got string, want ...string) {
	t.Helper()
	rest := got
	for _, text := range want {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("got %q, want %q in this order", got, want)
		}
		rest = after
	}
}
