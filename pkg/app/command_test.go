package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
)

func TestSetupCreatesTheStreamsAndBuildsTheParts(t *testing.T) {
	nats, err := embedded.Start(embedded.Options{Dir: filepath.Join(t.TempDir(), "nats"), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	environ := []string{"NATS_URL=" + nats.URL(), "LOG_LEVEL=error", "ADMIN_ADDR=127.0.0.1:0", "NATS_MAX_AGE=48h"}
	var built, closed bool
	build := func(ctx context.Context, p *app.Platform, _ env.ToolExecutor) (service.Parts, error) {
		built = true
		if err := p.Bus.Verify(ctx); err != nil || p.Bus.MaxAge().Hours() != 48 {
			t.Errorf("streams: %v, kept for %s, want 48h", err, p.Bus.MaxAge())
		}
		actor := service.Actor{Name: "work", Run: func(context.Context) error { return errors.New("setup ran an actor") }}
		return service.Parts{Actors: []service.Actor{actor}, Close: func() { closed = true }}, nil
	}
	if err := app.Command(t.Context(), "thing", []string{app.ArgSetup}, environ, build); err != nil || !built || !closed {
		t.Errorf("got %v, built %v, closed %v", err, built, closed)
	}

	broken := errors.New("no database")
	err = app.Command(t.Context(), "thing", []string{app.ArgSetup}, environ,
		func(context.Context, *app.Platform, env.ToolExecutor) (service.Parts, error) {
			return service.Parts{}, broken
		})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the parts", err)
	}
}

func TestCommandsThatDoNotRun(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"ready without a process": {[]string{app.ArgReady}, "ask whether the service is ready"},
		"an unknown argument":     {[]string{"start"}, "unknown arguments"},
		"two arguments":           {[]string{app.ArgReady, app.ArgSetup}, "unknown arguments"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := app.Command(t.Context(), "thing", test.args, []string{"ADMIN_ADDR=127.0.0.1:1"},
				func(context.Context, *app.Platform, env.ToolExecutor) (service.Parts, error) {
					return service.Parts{}, errors.New("the service was built")
				})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
