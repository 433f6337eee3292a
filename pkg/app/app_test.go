package app_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
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
		cfg, err := p.Config("scripted")
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

func TestAServiceThatCannotStartSaysWhy(t *testing.T) {
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
	broken := errors.New("the thing is broken")
	tests := map[string]struct {
		environ []string
		want    string
	}{
		"an environment that is wrong":   {[]string{"LOG_FORMAT=xml"}, `"xml" is none of`},
		"a secret given twice":           {[]string{"REDIS_URL=x", "REDIS_URL_FILE=/x"}, "both set"},
		"an admin address that is wrong": {[]string{"ADMIN_ADDR=nowhere"}, "open the admin server"},
		"streams that are missing":       {[]string{"NATS_URL=" + empty.URL()}, "EVENTS"},
		"a configuration that is wrong":  {[]string{ready, "CONFIG_FILE=" + wrong}, `unknown backend "scriptd"; did you mean "scripted"?`},
		"parts that cannot be built":     {[]string{ready}, broken.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			environ := append([]string{"ADMIN_ADDR=127.0.0.1:0", "LOG_LEVEL=error"}, test.environ...)
			err := app.Run(t.Context(), "thing", environ, func(_ context.Context, p *app.Platform, _ env.ToolExecutor) (service.Parts, error) {
				_, err := p.Config("scripted")
				return service.Parts{}, errors.Join(err, broken)
			})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
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

func TestServeSaysAtOnceThatItCannotListen(t *testing.T) {
	t.Parallel()
	_, _, err := app.Serve(t.Context(), &http.Server{Addr: "127.0.0.1:-1", ReadHeaderTimeout: time.Second}, all, nil)
	if err == nil || !strings.Contains(err.Error(), "open the HTTP server") {
		t.Errorf("got %v", err)
	}
}
