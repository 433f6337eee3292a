package clock_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/clock"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
)

func TestClock(t *testing.T) {
	t.Parallel()
	tooltest.Run(t, clock.New(time.Now), tooltest.Cases{
		Good: []string{`{}`, `{"timezone":"UTC"}`, `{"timezone":"Europe/Paris"}`, `{"timezone":"America/Argentina/Buenos_Aires"}`},
		Bad: []string{
			`{"timezone":"Mars/Olympus"}`, `{"timezone":"Local"}`, `{"timezone":""}`, `{"timezone":"../etc/passwd"}`,
			`{"timezone":"/etc/localtime"}`, `{"zone":"UTC"}`, `{"timezone":2}`,
		},
	})
}

func TestClockTellsTheTimeOfItsZone(t *testing.T) {
	t.Parallel()
	subject := clock.New(func() time.Time { return time.Date(2026, 7, 1, 22, 30, 0, 0, time.UTC) })
	tests := []struct{ name, args, want string }{
		{"UTC by default", `{}`, "Wednesday 2026-07-01T22:30:00Z (UTC)"},
		{"another zone, in summer, on another day", `{"timezone":"Europe/Paris"}`, "Thursday 2026-07-02T00:30:00+02:00 (Europe/Paris)"},
		{"a zone of half hours", `{"timezone":"Asia/Kolkata"}`, "Thursday 2026-07-02T04:00:00+05:30 (Asia/Kolkata)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := subject.Call(t.Context(), tool.Call{Args: json.RawMessage(test.args)})
			if err != nil || got.Content != test.want {
				t.Errorf("got %q, %v, want %q", got.Content, err, test.want)
			}
		})
	}
}
