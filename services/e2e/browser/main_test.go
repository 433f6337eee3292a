// Package browser tests agentbus with Tarko's published user interface in a real Chromium: what people see is what counts.
//
// Without Chromium or npm its tests are skipped, unless AGENTBUS_REQUIRE_SERVERS is 1. Each test
// leaves a picture of its page in the folder that go test has for what tests leave behind.
package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentbus/agentbus/services/e2e/stack"
	"github.com/chromedp/chromedp"
)

// gateway is the URL of the gateway under test, which serves the user interface.
var gateway string

// locked is a gateway that requires keys, in a directory of its own, and serves the user interface too.
var locked *stack.Stack

// lockedDir has the output of locked, which prints a key.
var lockedDir string

// pictures is the folder for the pictures of pages that tests leave behind.
var pictures = flag.String("pictures", "", "folder for a picture of each test's page; without it the one of -artifacts")

// chromium is a browser that runs; tabs are made from it.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if missing := missing(); missing != "" {
		if os.Getenv("AGENTBUS_REQUIRE_SERVERS") == "1" {
			return 1, fmt.Errorf("%s is needed", missing)
		}
		fmt.Fprintf(os.Stderr, "browser: the tests are left out: %s is needed\n", missing)
		return 0, nil
	}
	dir, err := os.MkdirTemp("", "agentbus-browser-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder: the system clears what stays behind
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	page, err := fetchUI(ctx)
	if err != nil {
		return 1, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "gateway:\n  sessions: {ui: %q}\n", page), 0o600); err != nil {
		return 1, err
	}
	s, err := stack.Start(ctx, stack.Options{Kind: stack.Dev, Dir: dir, Config: config})
	if err != nil {
		return 1, err
	}
	defer s.Stop()
	gateway = s.URL
	lockedDir = filepath.Join(dir, "locked")
	if err := os.Mkdir(lockedDir, 0o700); err != nil {
		return 1, err
	}
	locked, err = stack.Start(ctx, stack.Options{Kind: stack.Dev, Dir: lockedDir, Config: config, Binaries: dir, Args: []string{"--auth"}})
	if err != nil {
		return 1, err
	}
	defer locked.Stop()
	browser, stop, err := startChromium()
	if err != nil {
		return 1, err
	}
	chromium = browser //nolint:fatcontext // it is the one that every tab is made from
	defer stop()
	code = m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, s.Logs())
	}
	return code, nil
}

// missing names a program that is not there.
func missing() string {
	if _, err := exec.LookPath("npm"); err != nil {
		return "npm"
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			return ""
		}
	}
	return "chromium"
}

// startChromium starts the browser.
func startChromium() (browser context.Context, stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.WindowSize(1400, 1000))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses its sandbox to root
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	browser, cancel := chromedp.NewContext(allocator)
	stop = func() {
		cancel()
		end()
	}
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start Chromium: %w", err)
	}
	return browser, stop, nil
}
