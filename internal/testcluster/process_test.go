package testcluster_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/testcluster"
)

// script returns a process that runs a shell script, and ends with the test.
func script(t *testing.T, text string, ready func(context.Context) error) *testcluster.Process {
	t.Helper()
	p := testcluster.NewProcess(testcluster.Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", text}, Dir: t.TempDir(), Ready: ready})
	t.Cleanup(p.Kill)
	return p
}

// printed returns a check that the process has printed a text.
func printed(p **testcluster.Process, text string) func(context.Context) error {
	return func(context.Context) error {
		if !strings.Contains((*p).Log(), text) {
			return errors.New("not printed: " + text)
		}
		return nil
	}
}

// trapped is a script that handles SIGTERM. It prints when it does.
const trapped = "echo ready; while :; do sleep 0.02; done"

func TestTheEndOfAProcess(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		end          func(*testcluster.Process)
		want         string // at the end of the log
	}{
		{"Stop requests an orderly end", "trap 'echo orderly; exit' TERM; " + trapped, (*testcluster.Process).Stop, "ready\norderly\n"},
		{"Kill does not", "trap 'echo orderly; exit' TERM; " + trapped, (*testcluster.Process).Kill, "ready\n"},
		{"a process that ignores the signal is killed after the grace period", "trap '' TERM; " + trapped, func(p *testcluster.Process) {
			p.End(syscall.SIGTERM, 50*time.Millisecond)
		}, "ready\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var p *testcluster.Process
			p = script(t, test.script, printed(&p, "ready"))
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			pid := p.PID()
			test.end(p)
			if !p.Wait(0) || p.PID() != 0 || pid == 0 {
				t.Errorf("got id %d, then %d, want that the process has ended", pid, p.PID())
			}
			if got := p.Log(); got != test.want {
				t.Errorf("got the log %q, want %q", got, test.want)
			}
			if err := p.Start(t.Context()); err != nil || p.PID() == 0 {
				t.Errorf("got id %d and %v, want that the process runs again", p.PID(), err)
			}
		})
	}
}

func TestAProcessThatEndsBeforeItIsReady(t *testing.T) {
	t.Parallel()
	p := script(t, "echo no configuration; exit 1", func(context.Context) error { return errors.New("not ready") })
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no configuration") || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got %v, want the end and what it printed", err)
	}
}

func TestTheEnvironmentOfAProcess(t *testing.T) {
	t.Setenv("SECRET_OF_THE_TEST", "inherited")
	p := testcluster.NewProcess(testcluster.Command{
		Name: "env", Path: "/bin/sh", Dir: t.TempDir(), LogDir: t.TempDir(), Env: []string{"A=1", "B=1"},
		Args: []string{"-c", `echo "$A $B $HOME [$SECRET_OF_THE_TEST]"; pwd`},
	})
	t.Cleanup(p.Kill)
	ended, err := p.Spawn("B=2")
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	if got, want := p.Log(), "1 2 "+p.Dir+" []\n"+p.Dir+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAProcessThatWasNeverStarted(t *testing.T) {
	t.Parallel()
	p := script(t, trapped, nil)
	p.Stop()
	if p.PID() != 0 || !p.Wait(0) {
		t.Errorf("got id %d, want none", p.PID())
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 || r.URL.Path == "/never" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	if err := testcluster.Await(t.Context(), testcluster.Answers(server.URL)); err != nil || asked != 3 {
		t.Errorf("got %v after %d requests, want none after 3", err, asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := testcluster.Await(ctx, testcluster.Answers(server.URL+"/never"))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v, want the deadline and the status", err)
	}
}
