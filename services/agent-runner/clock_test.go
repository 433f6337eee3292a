package agentrunner_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

// elsewhere is a bus whose broker has another time than this process.
type elsewhere struct {
	*bus.Bus
	ahead time.Duration
}

func (e elsewhere) Now() time.Time { return e.Bus.Now().Add(e.ahead) }

func (e elsewhere) Last(ctx context.Context, log bus.LogID) (event.Frame, error) {
	f, err := e.Bus.Last(ctx, log)
	f.Time = f.Time.Add(e.ahead)
	return f, err
}

func (e elsewhere) Read(ctx context.Context, log bus.LogID, from uint64) iter.Seq2[event.Frame, error] {
	return func(yield func(event.Frame, error) bool) {
		for f, err := range e.Bus.Read(ctx, log, from) {
			f.Time = f.Time.Add(e.ahead)
			if !yield(f, err) {
				return
			}
		}
	}
}

// TestAWrongClockEndsNoRequestOfOthers has a runner whose clock is ten minutes ahead of the broker's, or behind it, sweep
// over a request of another runner that is quiet for longer than a sweep waits.
func TestAWrongClockEndsNoRequestOfOthers(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": -10 * time.Minute, "behind": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			s.limit(time.Minute)
			s.runner("right")
			log := s.say("/sleep 2s\n/say after")
			s.until(log, func(b event.Body) bool { return b.Name() == event.NameMetadata })
			s.link = func(parts *agentrunner.Bus) { parts.Broker = elsewhere{s.bus, ahead} }
			s.sweep, s.slots = 50*time.Millisecond, 1
			s.history.lists(log, time.Now().Add(ahead))
			s.runner("wrong")
			_, events := end[event.Done](s, log)
			if claims := find[event.Claim](events); len(claims) != 1 {
				t.Errorf("it was claimed %d times, want once", len(claims))
			}
		})
	}
}
