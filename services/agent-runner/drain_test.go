package agentrunner_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/rediscache"
)

func TestARunnerThatStopsHandsOverBetweenSteps(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.leave = time.Millisecond
	s.agents["demo"] = crashing(s.agents["demo"]) // a hand-over is not a crash
	stop := s.runner("r1")
	log := s.say("/stream 20 20\n/tool calculator {}\n/say done")
	s.until(log, isText)
	stopped := time.Now()
	stop()
	s.runner("r2")
	done, events := end[event.Done](s, log)
	if texts(done.Content) == "" || len(find[event.Claim](events)) != 3 {
		t.Errorf("got %+v with claims %+v", done, find[event.Claim](events))
	}
	for _, text := range find[event.Text](events) {
		if text.Discarded {
			t.Error("a text was discarded: the hand-over did not wait for the end of the turn")
		}
	}
	i := slices.IndexFunc(events, func(e event.Event) bool { c, ok := e.Body.(event.Claim); return ok && c.Released })
	if next := events[i+1]; next.Body.Name() != event.NameClaim || next.Time.Sub(events[i].Time) > 3*time.Second {
		t.Errorf("after the release came %s, %s later", next.Body.Name(), next.Time.Sub(events[i].Time))
	}
	t.Logf("done %s after the stop of the runner", time.Since(stopped).Round(time.Millisecond))
}

func crashing(a config.Agent) config.Agent {
	a.OnCrash = config.OnCrashError
	return a
}

func TestRequestEndsWithItsRunnerIfConfigured(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.agents["demo"] = crashing(s.agents["demo"])
	log := s.say("/say hello")
	w, _, err := s.bus.Claim(t.Context(), log, "dead", "test")
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	s.runner("r1")
	failed, events := end[event.Error](s, log)
	if failed.Code != apierr.AgentError || !failed.Retryable || len(find[event.Text](events)) > 0 {
		t.Errorf("got %+v in %v", failed, names(events))
	}
}

// forgetful is Redis that is down.
type forgetful struct{}

func (forgetful) PutActions(context.Context, ...rediscache.Action) error { return errDown }
func (forgetful) DropActions(context.Context, string, ...string) error {
	return errDown
}

var errDown = errors.New("redis is down")

func TestWithoutRedisActionsAreResolved(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.redis = forgetful{}
	s.runner("r1")
	_, events := end[event.Done](s, s.say("/tool delete_file {}\n/say done"))
	action := find[event.Continuation](events)[0]
	done, _ := end[event.Done](s, s.answer(event.ActionResult{ActionID: action.ActionID, Status: event.ActionSuccess}))
	if texts(done.Content) != "done" {
		t.Errorf("got %+v", done)
	}
}

// TestARunnerStopsThoughTheBrokerIsAway takes the broker away in the middle of a run and does not bring it back.
func TestARunnerStopsThoughTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b, err := bus.Connect(t.Context(), bus.Options{URL: server.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), bus.Storage{Memory: true}); err != nil {
		t.Fatal(err)
	}
	s := newStackOn(t, b)
	s.grace = 100 * time.Millisecond
	stop := s.runner("r1")
	s.until(s.say("/stream 100000 50"), isText)
	server.Close()
	began := time.Now()
	stop()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s", took)
	}
}
