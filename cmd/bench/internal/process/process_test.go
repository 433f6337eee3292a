package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	t.Parallel()
	const rest = " S 1 2 3 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 9 0 5 6 7"
	tests := []struct {
		name, stat string
		want       time.Duration
	}{
		{"user and system time together", "42 (gateway)" + rest, 4 * time.Second},
		{"a name with blanks and parentheses", "42 (a) b (c)" + rest, 4 * time.Second},
	}
	for _, tt := range tests {
		if got, err := parseCPU(tt.stat); err != nil || got != tt.want {
			t.Errorf("%s: got %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
	for _, stat := range []string{"", "42 (x) S 1", "42 (x) S 1 2 3 0 -1 4194560 100 0 0 0 a b 0"} {
		if got, err := parseCPU(stat); err == nil {
			t.Errorf("%q gives %v", stat, got)
		}
	}
}

func TestTheCostOfThisProcess(t *testing.T) {
	t.Parallel()
	before, err := cpuOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for deadline := time.Now().Add(30 * time.Second); after-before < 2*tick; {
		if time.Now().After(deadline) {
			t.Fatal("a busy process uses no processor time")
		}
		if after, err = cpuOf(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	rss, err := rssOf(os.Getpid())
	if err != nil || rss < 1<<20 {
		t.Errorf("a Go process holds %d bytes, %v", rss, err)
	}
}

func TestAProcessThatIgnoresTheSignalIsEnded(t *testing.T) {
	t.Parallel()
	p, err := Start(Command{
		Name: "stubborn", Path: "/bin/sh", Dir: t.TempDir(), Args: []string{"-c", "trap '' TERM; while :; do sleep 0.05; done"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(50 * time.Millisecond)
	select {
	case <-p.done:
	default:
		t.Error("Stop returned before the process had ended")
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	t.Run("tells what a process printed that ended too early", func(t *testing.T) {
		t.Parallel()
		p, err := Start(Command{Name: "short", Path: "/bin/sh", Dir: t.TempDir(), Args: []string{"-c", "echo no configuration; exit 1"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Stop(0) })
		err = p.Ready(t.Context(), "http://127.0.0.1:1/readyz")
		if err == nil || !strings.Contains(err.Error(), "no configuration") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("waits for the status 200, as long as its context allows", func(t *testing.T) {
		t.Parallel()
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked < 3 || r.URL.Path == "/never" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		t.Cleanup(server.Close)
		p, err := Start(Command{Name: "long", Path: "/bin/sleep", Dir: t.TempDir(), Args: []string{"60"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Stop(0) })
		if err := p.Ready(t.Context(), server.URL); err != nil || asked != 3 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := p.Ready(ctx, server.URL+"/never"); err == nil {
			t.Error("it is said to be ready, but never was")
		}
	})
}
