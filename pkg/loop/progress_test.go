package loop

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// TestEventsOfAToolAreWrittenWhileItRuns checks the order and the times of events: the tool runs for a second.
func TestEventsOfAToolAreWrittenWhileItRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var started time.Time
		var got []string
		for _, e := range newThread(t).say("/tool reporting {}\n/say done") {
			after := e.Time.Sub(started).Round(time.Second).String() + " "
			switch b := e.Body.(type) {
			case event.ToolCall:
				started = e.Time
			case event.Custom:
				got = append(got, after+string(b.Data))
			case event.Notice:
				got = append(got, after+"warning")
			}
		}
		want := []string{`0s {"n":1}`, "0s warning", `0s {"n":2}`, `1s {"n":3}`, `1s {"n":4}`}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want each event once, as early as possible: %q", got, want)
		}
	})
}
