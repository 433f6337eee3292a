package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
)

func TestThreadFollowerReceivesLogs(t *testing.T) {
	t.Parallel()
	r := good(t)
	whole := r.threadShown(ID{"ash", "thr_a"}, "thread")
	connection := func(format, after string, kept int, end oplog.End, seen ...oplog.Seen) oplog.Entry {
		return oplog.Entry{
			Op: oplog.Watch, Tenant: "ash", Thread: "thr_a", Session: "watch-" + format, Format: format, Status: 200,
			After: after, Kept: kept, End: end, Seen: seen,
		}
	}
	run, end := oplog.Seen{Name: "agent_run_start", Sum: 1}, oplog.Seen{Name: "agent_run_end", Sum: 2}
	other := oplog.Seen{Name: "system", Sum: 3}
	tests := []struct {
		what    string
		entries []oplog.Entry
		want    string // part of a violation; "" = none
	}{
		{"all in one connection", []oplog.Entry{connection("thread", "", len(whole), oplog.Terminal, whole...)}, ""},
		{"cut and resumed", []oplog.Entry{
			connection("thread", "", 2, oplog.Cut, whole[:2]...), connection("thread", "c", len(whole)-2, oplog.Terminal, whole[2:]...),
		}, ""},
		{"an event twice", []oplog.Entry{
			connection("thread", "", 2, oplog.Cut, whole[:2]...), connection("thread", "c", len(whole)-1, oplog.Terminal, whole[1:]...),
		}, "at place 2"},
		{"an event is missing", []oplog.Entry{
			connection("thread", "", 2, oplog.Cut, whole[:2]...), connection("thread", "c", len(whole)-3, oplog.Terminal, whole[3:]...),
		}, "at place 2"},
		{"the end is missing", []oplog.Entry{connection("thread", "", 2, oplog.Terminal, whole[:2]...)}, "saw the end after 2"},
		{"a session whose last group comes again", []oplog.Entry{
			connection("session", "", 1, oplog.Cut, run, end), connection("session", "c", 3, oplog.Terminal, end, run, end),
		}, ""},
		{"a session that continues with other events", []oplog.Entry{
			connection("session", "", 1, oplog.Cut, run, end), connection("session", "c", 3, oplog.Terminal, other, end, end),
		}, "in its place"},
		{"a session with one end too few", []oplog.Entry{connection("session", "", 2, oplog.Terminal, run, end)}, "the ends of 1 requests"},
		{"two see different things", []oplog.Entry{
			connection("session", "", 4, oplog.Terminal, run, end, run, end),
			func() oplog.Entry {
				e := connection("session", "", 4, oplog.Terminal, run, end, other, end)
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
