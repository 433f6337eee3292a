package agentrunner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

// lossy is a bus that reports no abort, and does not answer the first reads of commands.
type lossy struct {
	*bus.Bus
	unanswered atomic.Int32
}

var errNoAnswer = errors.New("the broker does not answer")

func (l *lossy) CommandsAfter(ctx context.Context, log bus.LogID, after uint64) (bus.CommandList, error) {
	if l.unanswered.Add(-1) >= 0 {
		return bus.CommandList{}, errNoAnswer
	}
	return l.Bus.CommandsAfter(ctx, log, after)
}

func (*lossy) WatchAbort(context.Context, bus.LogID, func(record.Abort)) (stop func(), err error) {
	return func() {}, nil
}

func TestRunningRequestRetriesToReadCommands(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	link := &lossy{Bus: s.bus}
	link.unanswered.Store(3)
	s.link = func(parts *agentrunner.Bus) { parts.Commands = link }
	log := s.say("/say hello")
	s.abort(log, time.Now())
	s.runner("r1")
	aborted, events := end[event.Aborted](s, log)
	if aborted.Reason != "enough" || len(find[event.Text](events)) > 0 {
		t.Errorf("got %+v in %v", aborted, names(events))
	}
	if left := link.unanswered.Load(); left >= 0 {
		t.Errorf("%d questions were never asked", left+1)
	}
}
