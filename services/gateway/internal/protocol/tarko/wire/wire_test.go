package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/wire"
)

var update = protocoltest.Update()

func forms() map[string]wire.Codec {
	return map[string]wire.Codec{
		"flat query":      {},
		"flat session":    {Framing: wire.Session},
		"flat lines":      {Framing: wire.Lines},
		"flat messages":   {Framing: wire.Messages},
		"nested query":    {Vocabulary: words.Nested},
		"nested session":  {Vocabulary: words.Nested, Framing: wire.Session},
		"nested lines":    {Vocabulary: words.Nested, Framing: wire.Lines},
		"nested messages": {Vocabulary: words.Nested, Framing: wire.Messages},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	var formats []protocoltest.Format
	for _, name := range []string{"flat query", "flat session", "flat lines", "flat messages", "nested query", "nested session", "nested lines", "nested messages"} {
		formats = append(formats, protocoltest.Format{Name: name, Dialect: forms()[name]})
	}
	protocoltest.Run(t, wire.Codec{}, update, formats...)
}

// TestEveryFramingCarriesTheSameEvents takes the events out of each framing as its client does, and compares.
func TestEveryFramingCarriesTheSameEvents(t *testing.T) {
	t.Parallel()
	for _, vocabulary := range []words.Vocabulary{words.Flat, words.Nested} {
		want := strings.Split(strings.TrimSuffix(write(t, wire.Codec{Vocabulary: vocabulary, Framing: wire.Lines}), "\n"), "\n")
		for _, framing := range []wire.Framing{wire.Query, wire.Session} {
			events, rest, err := sse.Parse([]byte(write(t, wire.Codec{Vocabulary: vocabulary, Framing: framing})))
			if err != nil || len(rest) > 0 || len(events) != len(want) {
				t.Fatalf("%d events and %q, want %d (%v)", len(events), rest, len(want), err)
			}
			for i, got := range events {
				if string(got.Data) != want[i] {
					t.Fatalf("event %d: got %s, want %s", i, got.Data, want[i])
				}
			}
		}
	}
}

// TestThePublishedFrontendTakesEveryBlock reads a query's stream as that frontend does (C2): it cuts at empty lines, and
// takes the text after "data: " for JSON.
func TestThePublishedFrontendTakesEveryBlock(t *testing.T) {
	t.Parallel()
	taken, ids := 0, 0
	for block := range strings.SplitSeq(strings.TrimSuffix(write(t, wire.Codec{}), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(block, "data: ")
		if !ok {
			if !strings.HasPrefix(block, "id: k3f9-") || strings.Contains(block, "\n") {
				t.Errorf("a block that is neither data nor an id: %q", block)
			}
			ids++
			continue
		}
		var e struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.ID == "" || e.Type == "" {
			t.Errorf("%q: %v", data, err)
		}
		taken++
	}
	if taken == 0 || ids == 0 || ids > taken {
		t.Errorf("%d events and %d ids", taken, ids)
	}
}

func TestNamedFramesOfTheNestedQueryHaveTheirType(t *testing.T) {
	t.Parallel()
	events, _, err := sse.Parse([]byte(write(t, wire.Codec{Vocabulary: words.Nested})))
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range events {
		if e, err := eventstream.DecodeNested(got.Data); err != nil || e.Type != got.Name {
			t.Errorf("%s: got the name %q (%v)", got.Data, got.Name, err)
		}
	}
}

// TestASessionOfTwoRuns checks that From is of the first request alone, and that the second begins anew.
func TestASessionOfTwoRuns(t *testing.T) {
	t.Parallel()
	first, second := logOf(t, "req_1", "hi"), logOf(t, "req_2", "ho")
	enc, err := wire.Codec{Framing: wire.Lines}.Encoder(codec.Options{From: 2})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, f := range append(first, second...) {
		if out, err = enc.Append(out, f); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		e, err := eventstream.DecodeFlat([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.ID+" "+e.Type)
	}
	want := "req_1-2 agent_run_end,req_2-0 user_message,req_2-1 agent_run_start,req_2-2 agent_run_end"
	if strings.Join(got, ",") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func logOf(t *testing.T, request, text string) []event.Frame {
	t.Helper()
	var log []event.Frame
	for n, body := range []event.Body{
		event.Input{ThreadID: "thr_1", AgentID: "demo", Messages: []event.InputMessage{event.UserText(text)}},
		event.Metadata{ThreadID: "thr_1", AgentID: "demo"},
		event.Done{ThreadID: "thr_1", FinishReason: event.FinishStop},
	} {
		line, err := event.Encode(event.Event{RequestID: request, Time: time.Unix(int64(n), 0), Body: body})
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, event.Frame{
			Incarnation: "k3f9", First: uint64(n), Names: []event.Name{body.Name()}, Lines: append(line, '\n'),
		})
	}
	return log
}

func TestNotesAreBlocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	note := codec.Control{Retry: 1500 * time.Millisecond, Comment: "heartbeat"}
	for name, d := range forms() {
		want := ": heartbeat\n\nretry: 1500\n\n"
		if d.Framing == wire.Lines || d.Framing == wire.Messages {
			want = ""
		}
		enc, err := d.Encoder(codec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(enc.AppendControl(nil, note)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestEncoderRefusesInvalidEvents(t *testing.T) {
	t.Parallel()
	enc, err := wire.Codec{}.Encoder(codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := event.Frame{Incarnation: "k3f9", Names: []event.Name{event.NameText}, Lines: []byte("{}\n")}
	if got, err := enc.Append([]byte("x"), f); err == nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
	enc, err = wire.Codec{}.Encoder(codec.Options{Cursor: func(dst []byte, _ string, _ uint64) []byte { return append(dst, '\n') }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enc.Append(nil, logOf(t, "req_1", "hi")[0]); !errors.Is(err, sse.ErrField) {
		t.Errorf("an id with a line break: got %v", err)
	}
}

func TestFailuresAreThoseOfTarko(t *testing.T) {
	t.Parallel()
	busy := apierr.New(apierr.ThreadBusy, "the session is busy")
	busy.RequestID = "req_2"
	tests := []struct {
		what string
		err  *apierr.Error
		want string
	}{
		{"a mistake of the client", apierr.New(apierr.InvalidMessageFormat, "Query is required"),
			`{"error":"Query is required","code":"invalid_message_format","retryable":false}`},
		{"a session that is not there", apierr.New(apierr.ThreadNotFound, "there is no thread thr_1"),
			`{"error":"Session not found","code":"thread_not_found","retryable":false}`},
		{"a second run", busy,
			`{"error":"the session is busy","code":"thread_busy","retryable":true,"runningRequestId":"req_2"}`},
		{"an agent that failed", apierr.New(apierr.AgentError, "the model broke off"),
			`{"success":false,"error":{"code":"AGENT_EXECUTION_ERROR","message":"the model broke off",` +
				`"details":{"code":"agent_error","retryable":false,"requestId":"req_1"}}}`},
		{"an error of ours", apierr.From(errors.New("boom")),
			`{"success":false,"error":{"code":"UNKNOWN_ERROR","message":"an internal error occurred; try again, and report the trace id if it stays",` +
				`"details":{"code":"internal_error","retryable":true,"requestId":"req_1"}}}`},
	}
	for _, test := range tests {
		kind, body := wire.Codec{}.EncodeError(codec.ErrorResponse{Error: test.err, RequestID: "req_1"})
		if kind != "application/json" || string(body) != test.want+"\n" {
			t.Errorf("%s: got %s %swant %s", test.what, kind, body, test.want)
		}
	}
}

func write(t *testing.T, d codec.Codec) string {
	t.Helper()
	enc, err := d.Encoder(codec.Options{})
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

func BenchmarkDeltas(b *testing.B) {
	line := `{"event":"text","id":"k3f9-1","requestId":"req_0cq6h8f2v1e7r9t3k5m7p9s1u2","timestamp":"2026-03-14T09:26:53.000001Z",` +
		`"messageId":"msg_0cq6h8f2v1e7r9t3k5m7p9s1u2","blockId":"b0",`
	frame := func(first uint64, members string, times int) event.Frame {
		f := event.Frame{Incarnation: "k3f9", First: first}
		for range times {
			f.Names = append(f.Names, event.NameText)
			f.Lines = append(f.Lines, line+members+"}\n"...)
		}
		return f
	}
	enc, err := wire.Codec{}.Encoder(codec.Options{})
	if err != nil {
		b.Fatal(err)
	}
	dst, err := enc.Append(nil, frame(0, `"stage":"start","blockIndex":0`, 1))
	if err != nil {
		b.Fatal(err)
	}
	deltas := frame(1, `"stage":"delta","deltaIndex":0,"delta":"hello"`, 64)
	b.ReportAllocs()
	for b.Loop() {
		if dst, err = enc.Append(dst[:0], deltas); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/event")
}
