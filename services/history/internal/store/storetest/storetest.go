// Package storetest says as tests what a store of history must do. Each database runs it on its own:
//
//	storetest.Run(t, func(t *testing.T) store.Store { … })
package storetest

import (
	"testing"

	"github.com/agentbus/agentbus/services/history/internal/store"
)

// Open returns an empty store that is closed when the test ends.
type Open func(t testing.TB) store.Store

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"is ready", isReady},
		{"gives a log back as it was written", givesBack},
		{"keeps an event once however often its frame comes", keepsOnce},
		{"takes what is new of a frame", takesNewPart},
		{"refuses a frame after a hole until the hole is filled", refusesHole},
		{"fills a hole from later in the same batch", fillsHoleInBatch},
		{"refuses what comes after the terminal event", refusesAfterTerminal},
		{"replaces the end of a log that a restored stream continued otherwise", replacesDiverged},
		{"replaces from the midst of a frame, twice in a batch", replacesInsideFrames},
		{"continues in another incarnation where the stored log ends", continuesIncarnation},
		{"takes accept, thread and frames in any order", takesAnyOrder},
		{"builds the same rows again from the start", rebuilds},
		{"ends with the log whatever the order and repetition of deliveries", anyDelivery},
		{"ends with the log when several write at once", concurrentWriters},
		{"keeps an event that it cannot read", keepsUnreadable},
		{"times an event that it cannot read by its frame", timesUnreadable},
		{"keeps a frame that is a whole request", keepsWholeFrame},
		{"drops what follows a terminal event in its frame", dropsAfterTerminalInside},
		{"keeps any text", keepsAnyText},
		{"stores thousands of events", storesThousands},
		{"forgets a deleted thread and does not bring it back", forgetsThread},
		{"forgets a request that turns up after its thread was deleted", forgetsLateRequest},
		{"keeps tenants apart", keepsTenantsApart},
		{"does not show a request before its owner is stored", hidesUnowned},
		{"lists threads in pages, the newest change first", listsThreads},
		{"titles a thread by its first message", titlesThread},
		{"keeps what is noted on a thread", keepsSession},
		{"titles a thread by its name, where it has one", namesThread},
		{"keeps what was noted last, in any order of deliveries", ordersSessions},
		{"forgets what was noted on a deleted thread", forgetsSession},
		{"keeps what was noted last when several write at once", concurrentSessions},
		{"lists requests in pages", listsRequests},
		{"lists events in pages", listsEvents},
		{"selects events", selectsEvents},
		{"answers any question as a look at each event would", anyQuery},
		{"reads frames from any event on", readsFrames},
		{"counts ended requests", countsEnded},
		{"lists the continuations of requests that ended with done", listsContinuations},
		{"selects the output of tools by agent", selectsToolOutput},
		{"lists open requests that are quiet", listsOpen},
		{"keeps the place of a request that has ended, and the hash of its body", keepsPlace},
		{"moves its progress with the batches, never over what is missing", movesProgress},
		{"refuses a batch when an older copy took its place", refusesOlderCopy},
		{"moves its progress from several sides at once", countsTogether},
		{"makes its tables once", migratesAgain},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

func isReady(t *testing.T, s store.Store) {
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("got %v, want a store that is ready", err)
	}
}
