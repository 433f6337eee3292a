package service_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/pkg/service"
)

func TestMain(m *testing.M) {
	if os.Getenv("SERVICE_TEST_CHILD") != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

// child is a process with two actors that reports on its standard output what happens.
func child() {
	ctx, stop := service.Signals(context.Background())
	defer stop()
	options := service.Options{Log: slog.New(slog.DiscardHandler), AdminAddr: os.Getenv("SERVICE_TEST_ADMIN")}
	err := service.Run(ctx, options, func(context.Context) (service.Parts, error) {
		return service.Parts{
			Actors: []service.Actor{waiting("worker"), waiting("edge"), {"announcer", announce}},
			Close:  func() { fmt.Fprintln(os.Stdout, "closed") },
		}, nil
	})
	fmt.Fprintln(os.Stdout, "returned", err)
}

func waiting(name string) service.Actor {
	return service.Actor{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		if os.Getenv("SERVICE_TEST_CHILD") == "stubborn" {
			select {}
		}
		fmt.Fprintln(os.Stdout, name, "stopped")
		return nil
	}}
}

func announce(ctx context.Context) error {
	fmt.Fprintln(os.Stdout, "running")
	<-ctx.Done()
	return ctx.Err()
}

func spawn(t *testing.T, kind, admin string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "SERVICE_TEST_CHILD="+kind, "SERVICE_TEST_ADMIN="+admin)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "running" {
		t.Fatalf("the child says %q", lines.Text())
	}
	return cmd, lines
}

func TestASignalStopsAProcessInOrder(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd, lines := spawn(t, "obedient", "")
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			var said []string
			for lines.Scan() {
				said = append(said, lines.Text())
			}
			want := []string{"edge stopped", "worker stopped", "closed", "returned <nil>"}
			if !slices.Equal(said, want) {
				t.Errorf("got %q, want %q", said, want)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the child ended with %v", err)
			}
		})
	}
}

func TestASecondSignalEndsAProcessAtOnce(t *testing.T) {
	t.Parallel()
	admin := freeAddr(t)
	cmd, _ := spawn(t, "stubborn", admin)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { status, _ := get(t, admin, "/readyz"); return status == http.StatusServiceUnavailable })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("got %v, want death by SIGTERM", err)
	}
}

func TestTheFirstActorToEndStopsAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := map[string]struct {
		ends error
		want string
	}{
		"with an error": {broken, "b: broken"},
		"without one":   {nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stopped atOnce
			err := service.Run(t.Context(), quiet(), func(context.Context) (service.Parts, error) {
				return service.Parts{Actors: []service.Actor{
					stopped.actor("a", nil),
					{"b", func(context.Context) error { return test.ends }},
					stopped.actor("c", nil),
				}}, nil
			})
			if got := fmt.Sprint(err); test.want != "" && got != test.want || test.want == "" && err != nil {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if !slices.Equal(stopped.names, []string{"c", "a"}) {
				t.Errorf("stopped %v", stopped.names)
			}
		})
	}
}

func TestErrorsOfStoppingAreReported(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var stopped atOnce
	err := service.Run(ctx, quiet(), func(context.Context) (service.Parts, error) {
		cancel()
		return service.Parts{Actors: []service.Actor{
			stopped.actor("a", errors.New("lost data")), stopped.actor("b", context.Canceled), stopped.actor("c", errors.New("jammed")),
		}}, nil
	})
	if err == nil || err.Error() != "c: jammed\na: lost data" {
		t.Errorf("got %v", err)
	}
}

func TestAnActorThatNeverStopsIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		defer close(release)
		options := quiet()
		options.Grace = time.Minute
		begin := time.Now()
		err := service.Run(ctx, options, func(context.Context) (service.Parts, error) {
			cancel()
			return service.Parts{Actors: []service.Actor{
				{"swift", func(ctx context.Context) error { <-ctx.Done(); return nil }},
				{"stuck", func(context.Context) error { <-release; return nil }},
			}}, nil
		})
		if err == nil || err.Error() != "stuck did not stop in time (1m0s for all)" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAProcessThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	broken := errors.New("no database")
	err := service.Run(t.Context(), quiet(), func(context.Context) (service.Parts, error) { return service.Parts{}, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	taken, listenErr := net.Listen("tcp", "127.0.0.1:0")
	if listenErr != nil {
		t.Fatal(listenErr)
	}
	defer taken.Close()
	options := quiet()
	options.AdminAddr = taken.Addr().String()
	err = service.Run(t.Context(), options, nil)
	if err == nil || !strings.Contains(err.Error(), "open the admin server") {
		t.Errorf("got %v, want that the address is taken", err)
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	var (
		mu     sync.Mutex
		broken error
	)
	setBroken := func(err error) { mu.Lock(); defer mu.Unlock(); broken = err }
	ctx, cancel := context.WithCancel(t.Context())
	options := quiet()
	options.AdminAddr = freeAddr(t)
	options.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	options.Profile = true
	built, mayStop, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, options, func(context.Context) (service.Parts, error) {
			<-built
			return service.Parts{
				Actors: []service.Actor{{"slow", func(ctx context.Context) error { <-ctx.Done(); <-mayStop; return nil }}},
				Checks: []service.Check{
					{"nats", func(context.Context) error { mu.Lock(); defer mu.Unlock(); return broken }},
					{"redis", func(context.Context) error { return nil }},
				},
			}, nil
		})
	}()
	expect := func(path string, status int, body string) {
		t.Helper()
		until(t, func() bool { s, b := get(t, options.AdminAddr, path); return s == status && strings.HasPrefix(b, body) })
	}
	expect("/healthz", http.StatusOK, "ok\n")
	expect("/readyz", http.StatusServiceUnavailable, "starting\n")
	close(built)
	expect("/readyz", http.StatusOK, "ok\n")
	expect("/metrics", http.StatusOK, "up 1\n")
	expect("/else", http.StatusNotFound, "")
	expect("/debug/pprof/goroutine?debug=1", http.StatusOK, "goroutine profile")
	setBroken(errors.New("no route"))
	expect("/readyz", http.StatusServiceUnavailable, "nats: no route\n")
	setBroken(nil)
	cancel()
	expect("/readyz", http.StatusServiceUnavailable, "stopping\n")
	expect("/healthz", http.StatusOK, "ok\n")
	close(mayStop)
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
}

// atOnce notes the order in which actors stop.
type atOnce struct {
	mu    sync.Mutex
	names []string
}

func (o *atOnce) actor(name string, err error) service.Actor {
	return service.Actor{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.names = append(o.names, name)
		return err
	}}
}

func quiet() service.Options { return service.Options{Log: slog.New(slog.DiscardHandler)} }

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := new(loopback.Ports).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// get returns 0 without an answer.
func get(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come to pass within 10s")
		}
	}
}
