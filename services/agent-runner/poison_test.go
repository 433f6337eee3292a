package agentrunner_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

// childURL is where the bus of a child process is.
const childURL = "AGENTRUNNER_TEST_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		fmt.Fprintln(os.Stderr, "child:", child(url))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child is a runner in a process of its own. Its backend ends the process, as running out of memory does.
func child(url string) error {
	ctx := context.Background()
	b, err := bus.Connect(ctx, bus.Options{URL: url, Name: "child"})
	if err != nil {
		return err
	}
	if err := b.Verify(ctx); err != nil {
		return err
	}
	r, err := agentrunner.New(agentrunner.Deps{
		Bus: agentrunner.BusOf(b), History: historyapi.NewClient(b), Actions: &actions{open: map[string]rediscache.Action{}},
		Config: config.Config{Agents: map[string]config.Agent{"demo": {Backend: "scripted"}}},
		Backends: map[string]backend.Backend{"demo": backend.Stateless(backendFunc(
			func(context.Context, backend.Turn, backend.Emit) (backend.Outcome, error) {
				os.Exit(2)
				return backend.Outcome{}, nil
			}))},
		Log: slog.New(slog.DiscardHandler), Name: "child",
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// TestARequestThatKillsItsRunnersEnds starts a runner again and again, as an orchestrator does.
func TestARequestThatKillsItsRunnersEnds(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	s := &stack{t: t, bus: server.Connect(t, "test")}
	log := s.say("poison")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	deaths := 0
	for ; ctx.Err() == nil; deaths++ {
		process := exec.CommandContext(ctx, os.Args[0])
		process.Env = append(os.Environ(), childURL+"="+server.URL())
		process.Stderr = os.Stderr
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		died := make(chan error, 1)
		go func() { died <- process.Wait() }()
		if !s.survives(died, log) {
			continue
		}
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-died
		break
	}
	failed, events := end[event.Error](s, log)
	if failed.Code != apierr.AgentError || !failed.Retryable || deaths != 3 || len(find[event.Claim](events)) != 4 {
		t.Errorf("got %+v after %d deaths and %d claims", failed, deaths, len(find[event.Claim](events)))
	}
}

// survives reports whether the log ends before the process dies.
func (s *stack) survives(died <-chan error, log bus.LogID) bool {
	s.t.Helper()
	for {
		select {
		case <-died:
			return false
		case <-time.After(50 * time.Millisecond):
		}
		if last, err := s.bus.Last(s.t.Context(), log); err == nil && last.Terminal() {
			return true
		}
	}
}
