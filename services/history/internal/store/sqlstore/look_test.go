package sqlstore

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

func at() time.Time { return time.Date(2026, 3, 14, 9, 26, 53, 589_793_000, time.UTC) }

// delta is what most events are.
func delta() []byte {
	index := 7
	line, err := event.Encode(event.Event{
		ID: event.NewCursor("k3v9x2ma", 42), RequestID: "req_0cq6h8f2v1e7r9t3k5m7p9s1u2", Time: at(),
		Body: event.Text{
			Block: event.Block{MessageID: "msg_0cq6h8f2v1e7r9t3k5m7p9s1u3", BlockID: "b1", Stage: event.StageDelta, DeltaIndex: &index},
			Delta: ` It is 42, as "everybody" knows.`,
		},
	})
	if err != nil {
		panic(err)
	}
	return line
}

func TestLook(t *testing.T) {
	t.Parallel()
	const when = `"timestamp":"2026-03-14T09:26:53.589793Z"`
	tests := []struct {
		name, line string
		plain      bool // need not be decoded
		time       bool
		delta      bool
	}{
		{"a delta as it is written", string(delta()), true, true, true},
		{"an event without a stage", `{"event":"claim",` + when + `,"epoch":1}`, true, true, false},
		{"a stage behind nested members",
			`{"event":"plan",` + when + `,"steps":[{"content":"a ] } \" , \\"},[]],"x":{"stage":"start"},"stage":"stop"}`, true, true, false},
		{"a stage before the time", `{"stage":"delta",` + when + `}`, false, true, true},
		{"a stage as a text", `{` + when + `,"delta":"\",\"stage\":\"delta\"","stage":"stop"}`, true, true, false},
		{"a stage inside", `{` + when + `,"args":{"stage":"delta"}}`, true, true, false},
		{"a name that ends like it", `{` + when + `,"x\"stage":"delta"}`, false, true, false},
		{"a name in escapes", `{` + when + `,"st\u0061ge":"delta"}`, false, true, true},
		{"a stage in escapes", `{` + when + `,"stage":"d\u0065lta"}`, false, true, true},
		{"white space", `{ ` + when + ` , "stage" : "delta" }`, false, true, true},
		{"white space in a value", `{` + when + `,"stage": "delta"}`, false, true, true},
		{"a stage that is not a text", `{` + when + `,"stage":7}`, false, false, false},
		{"an invalid time", `{"timestamp":"yesterday","stage":"delta"}`, false, false, false},
		{"no time", `{"stage":"delta"}`, false, false, true},
		{"no members", `{}`, false, false, false},
		{"something after the end", `{` + when + `}}`, false, false, false},
		{"another value", `[1,2]`, false, false, false},
		{"no JSON", "not JSON at all", false, false, false},
		{"half of it", string(delta()[:100]), false, false, false},
		{"nothing", "", false, false, false},
	}
	for _, tt := range tests {
		if _, ok := skipValue([]byte(tt.line)); ok != tt.plain {
			t.Errorf("%s: plain is %v, want %v", tt.name, ok, tt.plain)
		}
		g := readHead([]byte(tt.line))
		if g.at.IsZero() == tt.time || tt.time && !g.at.Equal(at()) || g.delta != tt.delta {
			t.Errorf("%s: got %+v", tt.name, g)
		}
	}
}

// FuzzLook holds the short way against the decoder.
func FuzzLook(f *testing.F) {
	f.Add(delta())
	for _, seed := range []string{
		"", "{}", `{"timestamp":"2026-03-14T09:26:53Z"}`, `{"timestamp":"2026-03-14T09:26:53,5+01:00","stage":"delta"}`,
		`{"a":[{"stage":1}],"timestamp":"2026-03-14T09:26:53.1Z","b":-1.5e3,"c":null,"stage":"stop"}`,
		`{"timestamp":"2026-03-14T09:26:53Z","a\\\"":"\\\\\"","stage":"delta"}`, `{"timestamp":null,"stage":null}`,
		"{\"timestamp\":\"2026-03-14T09:26:53Z\",\"stage\":\"\xff\"}", `{"timestamp":"0001-01-01T00:00:00Z"}`, `{,:}`, `{"":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := skipValue(line)
		if !ok {
			return
		}
		var want struct {
			Timestamp time.Time   `json:"timestamp"`
			Stage     event.Stage `json:"stage"`
		}
		if err := json.Unmarshal(line, &want); err != nil {
			return // it may take what the decoder refuses, but never read something else
		}
		if !got.at.Equal(want.Timestamp) || got.delta != (want.Stage == event.StageDelta) {
			t.Errorf("%q: got %+v, want %+v", line, got, want)
		}
	})
}

func BenchmarkLook(b *testing.B) {
	line := delta()
	b.ReportAllocs()
	for b.Loop() {
		if g := readHead(line); !g.delta {
			b.Fatal(g)
		}
	}
}
