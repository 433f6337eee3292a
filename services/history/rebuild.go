package history

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/services/history/internal/store"
)

// RebuildState is how far a rebuild has come.
type RebuildState struct {
	Begun   bool   // a history process has taken it up
	Through uint64 // everything that the stream held up to this sequence is stored
	Target  uint64 // the rebuild ends there
}

// Done reports whether the rebuild has ended.
func (s RebuildState) Done() bool { return s.Begun && s.Through >= s.Target }

// pollRebuild is the time between two looks at a rebuild.
const pollRebuild = 500 * time.Millisecond

// Rebuild asks the history processes that use a database to project everything again that the stream holds. It only resets
// the position that the database holds, and deletes nothing. The processes notice within a second; those that start later,
// when they start. If report is not nil, Rebuild waits until the rebuild has ended, and reports how far it has come whenever
// that changes.
func Rebuild(ctx context.Context, databaseURL string, report func(RebuildState)) (err error) {
	if databaseURL == "sqlite::memory:" {
		return errors.New("a database in memory belongs to the process that runs history: restart that process instead")
	}
	s, err := open(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	is, err := s.MoveProgress(ctx, func(p store.Progress) store.Progress { return store.Progress{Version: p.Version} })
	for err == nil && report != nil {
		state := RebuildState{Begun: is.Incarnation != "", Through: is.Through, Target: is.Target}
		if report(state); state.Done() {
			return nil
		}
		select {
		case <-time.After(pollRebuild):
			is, err = s.Progress(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
