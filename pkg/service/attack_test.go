package service_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/service/servicetest"
)

// openAdmin runs a process with an admin server until the test ends.
func openAdmin(t *testing.T, profile bool) service.Options {
	t.Helper()
	options := service.Options{
		Log: slog.New(slog.DiscardHandler), AdminAddr: freeAddr(t), Profile: profile,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, options, func(context.Context) (service.Parts, error) {
			return service.Parts{Actors: []service.Actor{waiting("worker")}}, nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	until(t, func() bool { status, _ := get(t, options.AdminAddr, "/readyz"); return status == http.StatusOK })
	return options
}

// ask sends a request with another host.
func ask(t *testing.T, addr, method, path, host string) (status int, header http.Header, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Opaque, request.Host = path, host
	response, err := http.DefaultTransport.RoundTrip(request) // follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// TestAttackEveryRouteOfTheAdminServer walks what the admin server serves, so that no new route is left out.
func TestAttackEveryRouteOfTheAdminServer(t *testing.T) {
	t.Parallel()
	options := openAdmin(t, false)
	want := []string{"GET /healthz", "GET /readyz", "GET /metrics"}
	if got := service.AdminRoutes(options); !slices.Equal(got, want) {
		t.Fatalf("the admin server serves %v without a key, want %v", got, want)
	}
	const host = "rebound.example"
	for _, route := range want {
		_, path, _ := strings.Cut(route, " ")
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"} {
			if status, header, _ := ask(t, options.AdminAddr, method, path, host); status != http.StatusMethodNotAllowed && status != http.StatusNotFound {
				t.Errorf("%s %s: got %d %v, want 405", method, path, status, header)
			}
		}
		for _, hostile := range []string{host, "127.0.0.1:1", "a\tb", "<script>", strings.Repeat("a", 5000)} {
			status, header, body := ask(t, options.AdminAddr, http.MethodGet, path, hostile)
			if status != http.StatusOK && status != http.StatusBadRequest || strings.Contains(body, hostile) || header.Get("Location") != "" {
				t.Errorf("%s as %.40q: got %d %v %.200q", path, hostile, status, header, body)
			}
		}
	}
}

func TestHostilePathsOfTheAdminServerAreNotFound(t *testing.T) {
	t.Parallel()
	options := openAdmin(t, false)
	for _, path := range []string{
		"/", "/debug/pprof", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline", "/debug/vars", "/config", "/env",
		"/metrics/", "/readyz/x", "/healthz%2f..%2fmetrics", "/%00", "/..%2f..%2fetc/passwd", "/metrics%0d%0aX-A:%20b", "/.git/config",
		"/" + strings.Repeat("a", 5000),
	} {
		status, header, body := ask(t, options.AdminAddr, http.MethodGet, path, "x")
		if status != http.StatusNotFound || header.Get("X-A") != "" || strings.Contains(body, "up 1") || strings.Contains(body, "goroutine") {
			t.Errorf("%.60q: got %d %v %.200q, want 404", path, status, header, body)
		}
	}
	for _, path := range []string{"//rebound.example/metrics", "/x/../../metrics", "/./healthz"} { // cleaned, and within this server
		_, header, _ := ask(t, options.AdminAddr, http.MethodGet, path, "rebound.example")
		if to := header.Get("Location"); strings.HasPrefix(to, "//") || strings.Contains(to, "://") {
			t.Errorf("%s leads to %q", path, to)
		}
	}
}

// TestProfilesAreServedOnlyWhereTheyAreConfigured lists every route that Profile adds.
func TestProfilesAreServedOnlyWhereTheyAreConfigured(t *testing.T) {
	t.Parallel()
	options := openAdmin(t, true)
	for _, route := range service.AdminRoutes(options)[3:] {
		if !strings.HasPrefix(route, "GET /debug/pprof/") {
			t.Errorf("Profile adds %s", route)
		}
	}
	if status, _, _ := ask(t, options.AdminAddr, http.MethodGet, "/debug/pprof/goroutine?debug=1", "x"); status != http.StatusOK {
		t.Errorf("got %d", status)
	}
	if status, _, body := ask(t, options.AdminAddr, http.MethodGet, "/debug/pprof/cmdline", "x"); status == http.StatusOK && strings.Contains(body, "-test.") {
		t.Errorf("the command line is served: %.200q", body)
	}
}

func TestAttackFramingOfTheAdminServer(t *testing.T) {
	t.Parallel()
	servicetest.Framing(t, openAdmin(t, true).AdminAddr, "/metrics")
}

func TestABodyThatNeverEndsHoldsNoConnectionOfTheAdminServer(t *testing.T) {
	t.Parallel()
	options := openAdmin(t, false)
	conn, err := net.Dial("tcp", options.AdminAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
	if _, err := io.ReadAll(conn); err != nil { // until the server closes it
		t.Errorf("the connection was held: %v", err)
	}
}
