package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/chaos/internal/record"
)

func TestWhoWatchesAThreadSeesItsLogs(t *testing.T) {
	t.Parallel()
	r := good(t)
	whole := r.threadShown(ID{"ash", "thr_a"}, "thread")
	connection := func(format, after string, kept int, end record.End, seen ...record.Seen) record.Entry {
		return record.Entry{
			Op: record.Watch, Tenant: "ash", Thread: "thr_a", Session: "watch-" + format, Format: format, Status: 200,
			After: after, Kept: kept, End: end, Seen: seen,
		}
	}
	run, end := record.Seen{Name: "agent_run_start", Sum: 1}, record.Seen{Name: "agent_run_end", Sum: 2}
	other := record.Seen{Name: "system", Sum: 3}
	tests := []struct {
		what    string
		entries []record.Entry
		want    string // part of a violation; "" = none
	}{
		{"all in one connection", []record.Entry{connection("thread", "", len(whole), record.Terminal, whole...)}, ""},
		{"cut and resumed", []record.Entry{
			connection("thread", "", 2, record.Cut, whole[:2]...), connection("thread", "c", len(whole)-2, record.Terminal, whole[2:]...),
		}, ""},
		{"an event twice", []record.Entry{
			connection("thread", "", 2, record.Cut, whole[:2]...), connection("thread", "c", len(whole)-1, record.Terminal, whole[1:]...),
		}, "at place 2"},
		{"an event is missing", []record.Entry{
			connection("thread", "", 2, record.Cut, whole[:2]...), connection("thread", "c", len(whole)-3, record.Terminal, whole[3:]...),
		}, "at place 2"},
		{"the end is missing", []record.Entry{connection("thread", "", 2, record.Terminal, whole[:2]...)}, "saw the end after 2"},
		{"a session whose last group comes again", []record.Entry{
			connection("session", "", 1, record.Cut, run, end), connection("session", "c", 3, record.Terminal, end, run, end),
		}, ""},
		{"a session that continues with other events", []record.Entry{
			connection("session", "", 1, record.Cut, run, end), connection("session", "c", 3, record.Terminal, other, end, end),
		}, "in its place"},
		{"a session with one end too few", []record.Entry{connection("session", "", 2, record.Terminal, run, end)}, "the ends of 1 requests"},
		{"two see different things", []record.Entry{
			connection("session", "", 4, record.Terminal, run, end, run, end),
			func() record.Entry {
				e := connection("session", "", 4, record.Terminal, run, end, other, end)
				e.Session = "another"
				return e
			}(),
		}, "there belongs"},
	}
	for _, test := range tests {
		r.Entries = slices.Clone(test.entries)
		found := r.watches()
		if (test.want == "") != (len(found) == 0) || len(found) > 0 && !strings.Contains(found[0].Text, test.want) {
			t.Errorf("%s: got %v, want %q", test.what, found, test.want)
		}
	}
}
