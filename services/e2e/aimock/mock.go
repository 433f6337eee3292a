// Package aimock checks the backends against an independent implementation of the providers' APIs: the npm package
// @copilotkit/aimock, a mock of both. Its fixtures are in testdata.
//
// Without node and npm its tests are skipped, unless AGENTBUS_REQUIRE_SERVERS is 1.
package aimock

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrMissing is the error of a machine without node or npm.
var ErrMissing = errors.New("node and npm are needed")

// Server is a running mock.
type Server struct {
	URL     string // without "/v1"
	process *exec.Cmd
	drained chan struct{}
}

// Start installs the mock where that is not done yet, and starts it on a free port of loopback. Folder holds
// package.json and package-lock.json; fixtures is a file. It waits until the mock answers or ctx is done.
func Start(ctx context.Context, folder, fixtures string) (*Server, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	modules, err := install(ctx, folder)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(node, filepath.Join(modules, "@copilotkit", "aimock", "dist", "cli.js"), //nolint:gosec,noctx // Stop ends it
		"--host", "127.0.0.1", "--port", "0", "--fixtures", fixtures, "--validate-on-load", "--strict")
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("read what the mock prints: %w", err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the mock: %w", err)
	}
	s := &Server{process: cmd, drained: make(chan struct{})}
	found := make(chan string, 1)
	go s.drain(output, found)
	select {
	case s.URL = <-found:
	case <-ctx.Done():
	}
	if s.URL == "" {
		return nil, errors.Join(errors.New("the mock did not come up"), ctx.Err(), s.Stop())
	}
	return s, nil
}

// drain reads what the mock prints until it ends, and sends the address that it listens on.
func (s *Server) drain(output io.Reader, found chan<- string) {
	defer close(s.drained)
	defer close(found)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			select {
			case found <- strings.TrimSpace(url):
			default: // it is known already
			}
		}
	}
	_, _ = io.Copy(io.Discard, output) // after a line that is too long: a full pipe would stop the mock
}

// Stop ends the mock and waits for it.
func (s *Server) Stop() error {
	if err := s.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the mock: %w", err)
	}
	<-s.drained
	_ = s.process.Wait() // killed: its status says nothing
	return nil
}

// install puts the packages of the lock file into the user's cache, once for each content of it, and returns the folder
// node_modules.
func install(ctx context.Context, folder string) (string, error) {
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return "", fmt.Errorf("read the lock file: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256(lock)
	home := filepath.Join(cache, "agentbus", "aimock-"+hex.EncodeToString(sum[:6]))
	modules := filepath.Join(home, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(filepath.Dir(home), 0o750); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(home), "installing-")
	if err != nil {
		return "", fmt.Errorf("make a folder to install in: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }() // gone already when all went well
	if err := npm(ctx, folder, fresh); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, home); err != nil {
		if _, other := os.Stat(modules); other != nil { // another process was not faster, either
			return "", fmt.Errorf("move the packages to the cache: %w", err)
		}
	}
	return modules, nil
}

//nolint:gosec // our own files, and npm as the path has it
func npm(ctx context.Context, from, to string) error {
	path, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	cmd := exec.CommandContext(ctx, path, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = to
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
