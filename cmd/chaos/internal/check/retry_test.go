package check

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/chaos/internal/record"
)

func TestAKeyStandsForOneBody(t *testing.T) {
	t.Parallel()
	post := func(status int, body, code string, stream bool) record.Entry {
		return record.Entry{
			Op: record.Post, Tenant: "ash", Request: "req_1", Key: "key-1", Status: status, Body: body, Code: code, Stream: stream,
		}
	}
	tests := []struct {
		what    string
		entries []record.Entry
		want    string // part of a violation; "" = none
	}{
		{"the same body by both routes", []record.Entry{post(202, "a", "", false), post(200, "a", "", true)}, ""},
		{"another body is refused", []record.Entry{post(202, "a", "", false), post(422, "b", codeMismatch, false)}, ""},
		{"another body is taken", []record.Entry{post(202, "a", "", false), post(200, "b", "", true)}, "was taken with another body"},
		{"the same body is refused", []record.Entry{post(422, "a", codeMismatch, false), post(200, "a", "", true)}, "was refused with the body"},
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
