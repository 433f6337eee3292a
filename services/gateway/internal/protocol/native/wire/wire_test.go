package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestConformance(t *testing.T) {
	t.Parallel()
	allowed := codec.Options{Include: []string{"tool_output"}, ToolOutput: func() bool { return true }}
	protocoltest.Run(t, wire.Codec{}, update,
		protocoltest.Format{Name: "sse with tool output", Options: allowed},
		protocoltest.Format{Name: "sse"},
		protocoltest.Format{Name: "sse with some", Options: codec.Options{Include: []string{"input", "plan"}}},
		protocoltest.Format{Name: "sse with all", Options: codec.Options{Include: []string{"extended"}}},
		protocoltest.Format{Name: "ndjson", Options: codec.Options{Accept: "application/x-ndjson"}},
		protocoltest.Format{Name: "ndjson with all",
			Options: codec.Options{Accept: "application/x-ndjson", Include: []string{"extended"}}},
	)
}

func TestLinesAreTheDataOfServerSentEvents(t *testing.T) {
	t.Parallel()
	for _, include := range [][]string{nil, {"extended"}, {"usage"}} {
		events := write(t, codec.Options{Accept: "*/*", Include: include})
		var data []string
		parsed, rest, err := sse.Parse([]byte(events))
		if err != nil || len(rest) > 0 {
			t.Fatalf("rest %q, %v", rest, err)
		}
		for _, e := range parsed {
			data = append(data, string(e.Data)+"\n")
		}
		if lines := write(t, codec.Options{Accept: "text/html, application/x-ndjson;q=0.9", Include: include}); lines != strings.Join(data, "") {
			t.Errorf("include %v: got lines\n%s\nwant the data of\n%s", include, lines, events)
		}
	}
}

func TestEveryServerSentEventHasItsNameAndCursor(t *testing.T) {
	t.Parallel()
	parsed, _, err := sse.Parse([]byte(write(t, codec.Options{Include: []string{"extended"}})))
	if err != nil || len(parsed) == 0 {
		t.Fatalf("%d events, %v", len(parsed), err)
	}
	for _, got := range parsed {
		e, err := event.Decode(got.Data)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != string(e.ID) || got.Name != string(e.Body.Name()) {
			t.Errorf("got id %q, name %q for %s", got.ID, got.Name, got.Data)
		}
	}
}

func TestIncludeRefusesWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"tool_output", "everything", "", "Extended", "a\r\nb"} {
		_, err := wire.Codec{}.Encoder(codec.Options{Include: []string{word}})
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), "extended") {
			t.Errorf("%q: got %v, want invalid_message_format that lists the choices", word, err)
		}
	}
}

func TestToolOutputIsSentOnlyIfItIsIncludedAndAllowed(t *testing.T) {
	t.Parallel()
	yes, no := func() bool { return true }, func() bool { return false }
	tests := []struct {
		does       string
		include    []string
		allowed    func() bool
		wantOutput bool
	}{
		{"nothing is included", nil, yes, false},
		{"all events are included", []string{"extended"}, yes, false},
		{"subagents are included", []string{"subagent"}, yes, false},
		{"it is included and allowed", []string{"extended", "tool_output"}, yes, true},
		{"it is included, and refused for this log", []string{"extended", "tool_output"}, no, false},
	}
	for _, tt := range tests {
		for _, accept := range []string{"", wire.NDJSON} {
			t.Run(tt.does+" "+accept, func(t *testing.T) {
				t.Parallel()
				got := write(t, codec.Options{Accept: accept, Include: tt.include, ToolOutput: tt.allowed})
				for _, output := range []string{`"event":"tool_output"`, `"delta":"computing"`} {
					if strings.Contains(got, output) != tt.wantOutput {
						t.Errorf("got %s, want %s in it: %v", got, output, tt.wantOutput)
					}
				}
			})
		}
	}
}

func TestPlaceReplacesTheCursor(t *testing.T) {
	t.Parallel()
	place := func(dst []byte, incarnation string, _ uint64) []byte {
		return append(append(dst, "x."...), incarnation...)
	}
	if got := write(t, codec.Options{Cursor: place}); !strings.HasPrefix(got, "id: x.k3f9\n") {
		t.Errorf("got %.60q", got)
	}
	broken := func(dst []byte, _ string, _ uint64) []byte { return append(dst, "1\nevent: done"...) }
	enc, err := wire.Codec{}.Encoder(codec.Options{Cursor: broken})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range protocoltest.Log(t) {
		if f.Names[0].IsTerminal() {
			if got, err := enc.Append(nil, f); err == nil {
				t.Fatalf("an id with a line break: got %q", got)
			}
		}
	}
}

func TestNote(t *testing.T) {
	t.Parallel()
	note := codec.Control{Retry: 1500 * time.Millisecond, Comment: "draining"}
	for accept, want := range map[string]string{"": ": draining\n\nretry: 1500\n\n", wire.NDJSON: "\n"} {
		enc, err := wire.Codec{}.Encoder(codec.Options{Accept: accept})
		if err != nil {
			t.Fatal(err)
		}
		if got := enc.AppendControl(nil, note); string(got) != want {
			t.Errorf("%q: got %q, want %q", accept, got, want)
		}
	}
}

func TestFailureIsTheErrorEvent(t *testing.T) {
	t.Parallel()
	busy := apierr.New(apierr.ThreadBusy, "wait")
	busy.RequestID = "req_2"
	kind, body := wire.Codec{}.EncodeError(codec.ErrorResponse{Error: busy, ThreadID: "thr_1", At: time.Unix(0, 0)})
	want := `{"event":"error","requestId":"","timestamp":"1970-01-01T00:00:00.000000Z","threadId":"thr_1","code":"thread_busy",` +
		`"message":"wait","retryable":true,"runningRequestId":"req_2"}` + "\n"
	if kind != "application/json" || string(body) != want {
		t.Errorf("got %s\n%swant\n%s", kind, body, want)
	}
}

func BenchmarkServerSentEvents(b *testing.B) {
	line := `{"event":"text","id":"k3f9-1","requestId":"req_1","blockId":"b0","stage":"delta","delta":"` + strings.Repeat("x", 150) + "\"}\n"
	f := event.Frame{Incarnation: "k3f9"}
	for range 64 {
		f.Names = append(f.Names, event.NameText)
		f.Lines = append(f.Lines, line...)
	}
	enc, err := wire.Codec{}.Encoder(codec.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		if dst, err = enc.Append(dst[:0], f); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/event")
}

func write(t *testing.T, o codec.Options) string {
	t.Helper()
	enc, err := wire.Codec{}.Encoder(o)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, f := range protocoltest.Log(t) {
		if out, err = enc.Append(out, f); err != nil {
			t.Fatal(err)
		}
	}
	return string(out)
}
