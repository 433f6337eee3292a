package check

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
)

func TestIdempotencyKeyRequiresTheSameBody(t *testing.T) {
	t.Parallel()
	post := func(status int, body, code string, stream bool) oplog.Entry {
		return oplog.Entry{
			Op: oplog.Post, Tenant: "ash", Request: "req_1", Key: "key-1", Status: status, Body: body, Code: code, Stream: stream,
		}
	}
	tests := []struct {
		what    string
		entries []oplog.Entry
		want    string // part of a violation; "" = none
	}{
		{"the same body by both routes", []oplog.Entry{post(202, "a", "", false), post(200, "a", "", true)}, ""},
		{"another body is refused", []oplog.Entry{post(202, "a", "", false), post(422, "b", codeMismatch, false)}, ""},
		{"another body is taken", []oplog.Entry{post(202, "a", "", false), post(200, "b", "", true)}, "was taken with another body"},
		{"the same body is refused", []oplog.Entry{post(422, "a", codeMismatch, false), post(200, "a", "", true)}, "was refused with the body"},
	}
	for _, test := range tests {
		r := &Run{Entries: test.entries}
		found := r.retries()
		if (test.want == "") != (len(found) == 0) || len(found) > 0 && !strings.Contains(found[0].Text, test.want) {
			t.Errorf("%s: got %v, want %q", test.what, found, test.want)
		}
	}
	taken := map[string]int{}
	(&Run{Entries: append(tests[0].entries, tests[1].entries[1])}).countRetries(taken)
	if taken[PathBothRoutes] != 1 || taken[PathOtherBody] != 1 {
		t.Errorf("counted %v, want each path once", taken)
	}
}
