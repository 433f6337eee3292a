package app_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/sqldb"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// These tests are not parallel: a service sets slog's default and OpenTelemetry's globals, as a process does once.

func TestAServiceRunsOnItsPlatform(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("demo: true\nagents: {mine: {backend: scripted}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var happened []string
	err := app.Run(ctx, "thing", []string{
		"NATS_URL=" + bustest.NewServer(t).URL(), "ADMIN_ADDR=127.0.0.1:0", "CONFIG_FILE=" + file, "SLOTS=3", "LOG_LEVEL=error",
		"OPENAI_API_KEY=k",
	}, func(ctx context.Context, p *app.Platform, e env.AgentRunner) (service.Parts, error) {
		cfg, err := p.Config(config.Known{Backends: []string{"scripted"}})
		if err != nil {
			return service.Parts{}, err
		}
		if e.Slots != 3 || p.Name != "thing" || len(cfg.Agents) != 3 {
			t.Errorf("slots %d, name %s, agents %v", e.Slots, p.Name, cfg.Agents)
		}
		if err := p.Bus.Ready(ctx); err != nil {
			t.Error(err)
		}
		return service.Parts{
			Actors: []service.Actor{{Name: "work", Run: func(ctx context.Context) error {
				stop()
				<-ctx.Done()
				happened = append(happened, "stopped")
				return p.Bus.Ready(context.WithoutCancel(ctx)) // the bus outlives the actors
			}}},
			Close: func() { happened = append(happened, "closed") },
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(happened, []string{"stopped", "closed"}) {
		t.Errorf("got %v", happened)
	}
}

func TestServiceReportsStartError(t *testing.T) {
	empty, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(empty.Close)
	ready := "NATS_URL=" + bustest.NewServer(t).URL()
	wrong := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(wrong, []byte("agents: {a: {backend: scriptd, tools: [clok]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(long, []byte("agents: {a: {backend: scripted, actionTTL: 168h}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the thing is broken")
	tests := map[string]struct {
		environ []string
		want    string
	}{
		"an environment that is wrong":    {[]string{"LOG_FORMAT=xml"}, `"xml" is not one of`},
		"a secret given twice":            {[]string{"REDIS_URL=x", "REDIS_URL_FILE=/x"}, "both set"},
		"an admin address that is wrong":  {[]string{"ADMIN_ADDR=nowhere"}, "open the admin server"},
		"streams that can never be made":  {[]string{"NATS_URL=" + empty.URL(), "NATS_PROVISION=create", "NATS_MAX_AGE=1ms"}, "maximum age"},
		"more time to act than retention": {[]string{ready, "CONFIG_FILE=" + long}, "agents.a.actionTTL is 168h0m0s, longer than the 72h0m0s"},
		"a configuration that is wrong":   {[]string{ready, "CONFIG_FILE=" + wrong}, `unknown backend "scriptd"; did you mean "scripted"?`},
		"parts that cannot be built":      {[]string{ready}, broken.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			environ := append([]string{"ADMIN_ADDR=127.0.0.1:0", "LOG_LEVEL=error"}, test.environ...)
			err := app.Run(t.Context(), "thing", environ, func(_ context.Context, p *app.Platform, _ env.ToolExecutor) (service.Parts, error) {
				_, err := p.Config(config.Known{Backends: []string{"scripted"}})
				return service.Parts{}, errors.Join(err, broken)
			})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// free is an address that nothing listens at.
func free(t *testing.T) string {
	t.Helper()
	addr, err := new(loopback.Ports).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// waits starts a service, and returns once /readyz says that it waits for what is named.
func waits(ctx context.Context, t *testing.T, environ []string, what string, build app.Build[env.ToolExecutor]) <-chan error {
	t.Helper()
	admin, ended := free(t), make(chan error, 1)
	environ = append([]string{"ADMIN_ADDR=" + admin, "LOG_LEVEL=error"}, environ...)
	go func() { ended <- app.Run(ctx, "thing", environ, build) }()
	said := ""
	for deadline := time.Now().Add(time.Minute); !strings.Contains(said, what); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("/readyz says %q, want %q", said, what)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if said = string(text); response.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("/readyz answers %d %q while it waits", response.StatusCode, said)
		}
	}
	return ended
}

func TestAServiceWaitsForNATSAndForItsStreams(t *testing.T) {
	addr := free(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	built := make(chan struct{})
	environ := []string{"NATS_URL=nats://user:hidden@" + addr}
	ended := waits(ctx, t, environ, "waiting for nats: connect to NATS at ",
		func(context.Context, *app.Platform, env.ToolExecutor) (service.Parts, error) {
			close(built)
			stop()
			return service.Parts{}, nil
		})
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b, err := bus.Connect(t.Context(), bus.Options{URL: server.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Provision(t.Context(), bus.Storage{Memory: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-built:
	case err := <-ended:
		t.Fatalf("the service ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the service does not start")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestServicesStartOnAClusterThatIsStillElecting starts services together, as a deployment does, before the cluster can
// elect a leader.
func TestServicesStartOnAClusterThatIsStillElecting(t *testing.T) {
	url, others := bustest.Electing(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	built := make(chan error, 3)
	build := func(ctx context.Context, p *app.Platform, _ env.ToolExecutor) (service.Parts, error) { //nolint:unparam // a Build
		built <- p.Bus.Ready(ctx)
		return service.Parts{}, nil
	}
	environ := []string{"NATS_URL=" + url, "NATS_PROVISION=create", "NATS_REPLICAS=3"}
	first := waits(ctx, t, environ, "waiting for streams: ", build)
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() {
			ended <- app.Run(ctx, "thing", append([]string{"ADMIN_ADDR=127.0.0.1:0", "LOG_LEVEL=error"}, environ...), build)
		}()
	}
	others()
	for range cap(built) {
		select {
		case err := <-built:
			if err != nil {
				t.Error(err)
			}
		case err := <-first:
			t.Fatalf("the first service ended: %v", err)
		case err := <-ended:
			t.Fatalf("a service ended: %v", err)
		case <-time.After(2 * time.Minute):
			t.Fatal("a service does not start")
		}
	}
	sameLimits(t, url)
	stop()
	for _, c := range []<-chan error{first, ended, ended} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
}

// sameLimits checks that the streams which keep events, results and objects may take as many bytes each.
func sameLimits(t *testing.T, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	limits := map[int64][]string{}
	for _, name := range []string{"AGENTBUS_EVENTS", "AGENTBUS_RESULTS", "OBJ_AGENTBUS_OBJECTS"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		limits[c.MaxBytes] = append(limits[c.MaxBytes], name)
		if c.Replicas != 3 {
			t.Errorf("%s has %d replicas, want 3", name, c.Replicas)
		}
	}
	if len(limits) != 1 {
		t.Errorf("the streams may take different numbers of bytes: %v", limits)
	}
}

func TestAServiceThatWaitsStopsInOrder(t *testing.T) {
	empty, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(empty.Close)
	provisioned := "NATS_URL=" + bustest.NewServer(t).URL()
	tables := sqldb.Schema{Version: "v", Files: fstest.MapFS{"1_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (x BIGINT);\n")}}}
	database := func(ctx context.Context, p *app.Platform, _ env.ToolExecutor) (service.Parts, error) {
		return service.Parts{}, p.AwaitDatabase(ctx, func(ctx context.Context) error {
			_, err := sqldb.Open(ctx, "postgres://u:p@"+free(t)+"/x", tables)
			return err
		})
	}
	for what, test := range map[string]struct {
		environ []string
		build   app.Build[env.ToolExecutor]
	}{
		"waiting for nats: connect to NATS":           {[]string{"NATS_URL=nats://" + free(t)}, nil},
		"waiting for streams: stream AGENTBUS_EVENTS": {[]string{"NATS_URL=" + empty.URL()}, nil},
		"waiting for database: ":                      {[]string{provisioned}, database},
	} {
		ctx, stop := context.WithCancel(t.Context())
		ended := waits(ctx, t, test.environ, what, test.build)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func all(l net.Listener) net.Listener { return l }

func TestServeLetsGoOfStreamsBeforeItWaits(t *testing.T) {
	t.Parallel()
	drained := make(chan struct{})
	streaming := make(chan struct{})
	server := &http.Server{
		Addr: "127.0.0.1:0", ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			close(streaming)
			<-drained // a stream that would never end by itself
		}),
	}
	actor, addr, err := app.Serve(t.Context(), server, all, func() { close(drained) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- actor.Run(ctx) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	<-streaming
	stop()
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
	if _, err := net.DialTimeout("tcp", addr.String(), time.Second); err == nil {
		t.Error("the server still listens")
	}
}

func TestServeReportsListenErrorImmediately(t *testing.T) {
	t.Parallel()
	_, _, err := app.Serve(t.Context(), &http.Server{Addr: "127.0.0.1:-1", ReadHeaderTimeout: time.Second}, all, nil)
	if err == nil || !strings.Contains(err.Error(), "open the HTTP server") {
		t.Errorf("got %v", err)
	}
}
