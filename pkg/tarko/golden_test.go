package tarko_test

import (
	"slices"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"golang.org/x/tools/txtar"
)

// TestEveryTypeHasAGolden checks that the stories have each type of each vocabulary, except those that no log has.
func TestEveryTypeHasAGolden(t *testing.T) {
	t.Parallel()
	ofSessions := []tarko.Type{tarko.TypeSessionStart, tarko.TypeSessionEnd} // see TestSessionsBeginAndEnd
	for _, v := range []tarko.Vocabulary{tarko.Flat, tarko.Nested} {
		told := map[tarko.Type]bool{}
		for _, file := range stories(t) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range project(t, v, readLog(t, archive.Files[0].Data)) {
				told[tarko.Type(e.Type)] = true
			}
		}
		for _, kind := range v.Types() {
			if !told[kind] && !slices.Contains(ofSessions, kind) {
				t.Errorf("vocabulary %d: no story has a %s: add one to testdata/stories", v, kind)
			}
		}
	}
}

func TestSessionsBeginAndEnd(t *testing.T) {
	t.Parallel()
	began, ended := time.UnixMilli(1_700_000_000_000), time.UnixMilli(1_700_000_060_000)
	tests := map[string]struct {
		event eventstream.Event
		want  string
	}{
		"a start": {tarko.SessionStarted("thr_1", "demo", began),
			`{"id":"thr_1-session_start","type":"session_start","timestamp":1700000000000,"sessionId":"thr_1",` +
				`"data":{"sessionId":"thr_1","agentName":"demo","timestamp":1700000000000},"metadata":{"source":"session","version":"1.0"}}`},
		"an end": {tarko.SessionEnded("thr_1", began, ended, 4),
			`{"id":"thr_1-session_end","type":"session_end","timestamp":1700000060000,"sessionId":"thr_1",` +
				`"data":{"sessionId":"thr_1","duration":60000,"messageCount":4},"metadata":{"source":"session","version":"1.0"}}`},
	}
	for name, test := range tests {
		if got, err := test.event.AppendNested(nil); err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, test.want)
		}
	}
}
