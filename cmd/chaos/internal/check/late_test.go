package check

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/internal/journal"
)

func TestWhatTheStreamsHaveForgottenStaysKnown(t *testing.T) {
	t.Parallel()
	again := oplog.Entry{Op: oplog.Late, Tenant: "ash", Original: asker, Request: asker, Status: 202}
	other := oplog.Entry{Op: oplog.Late, Tenant: "ash", Original: asker, Status: 422, Code: codeMismatch, Other: true}
	next := oplog.Entry{Op: oplog.Late, Tenant: "ash", Request: "req_next", Status: 200, End: "done", Thread: "thr_a"}
	with := func(e oplog.Entry, change func(*oplog.Entry)) oplog.Entry {
		change(&e)
		return e
	}
	tests := []struct {
		what  string
		spoil func(r *Run)
		want  string // part of a violation; "" = none
	}{
		{"nothing", func(*Run) {}, ""},
		{"a second request", func(r *Run) {
			r.Entries = append(r.Entries, with(again, func(e *oplog.Entry) { e.Request = "req_2" }))
		}, "its key made"},
		{"another body is taken", func(r *Run) {
			r.Entries = append(r.Entries, with(other, func(e *oplog.Entry) { e.Status, e.Code = 202, "" }))
		}, "another body"},
		{"a retry is refused", func(r *Run) {
			r.Entries = append(r.Entries, with(again, func(e *oplog.Entry) { e.Status = 503 }))
		}, "answered with 503"},
		{"the thread is broken", func(r *Run) {
			r.Entries = append(r.Entries, with(next, func(e *oplog.Entry) { e.End = "error" }))
		}, `ended with "error"`},
		{"it runs again", func(r *Run) { r.Later.Logs = r.Logs }, "ran again"},
		{"a call runs again", func(r *Run) {
			r.Later.Executions = append(r.Later.Executions, journal.Line{Call: "call_1", Tool: journal.Approved})
		}, "call call_1"},
	}
	for _, test := range tests {
		r := good(t)
		r.Entries = append(r.Entries, again, other, next)
		r.Later = &Run{Logs: map[ID]*Log{}, Executions: append([]journal.Line(nil), r.Executions...)}
		test.spoil(r)
		found := r.late()
		text := ""
		for _, v := range found {
			text += v.Text + "\n"
		}
		if (test.want == "") != (len(found) == 0) || !strings.Contains(text, test.want) {
			t.Errorf("%s: got %v, want %q", test.what, found, test.want)
		}
	}
}
