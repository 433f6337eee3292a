package telemetry_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/trace"
)

func TestLogsCarryTheirTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, telemetry.LogOptions{Service: "gateway"})
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	log.With("requestId", "req_1").InfoContext(ctx, "accepted", "agent", "demo")
	log.InfoContext(t.Context(), "idle")

	lines := decode(t, out.Bytes())
	want := map[string]string{
		"msg": "accepted", "level": "INFO", "service": "gateway", "requestId": "req_1", "agent": "demo",
		"trace_id": "01000000000000000000000000000000", "span_id": "0200000000000000",
	}
	for name, value := range want {
		if lines[0][name] != value {
			t.Errorf("%s: got %v, want %q", name, lines[0][name], value)
		}
	}
	if _, ok := lines[1]["trace_id"]; ok || lines[1]["service"] != "gateway" {
		t.Errorf("a line without a trace: %v", lines[1])
	}
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, telemetry.LogOptions{Level: slog.LevelWarn, Text: true})
	log.Info("quiet")
	log.Warn("loud")
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "level=WARN msg=loud") {
		t.Errorf("got %q", got)
	}
}

func TestLogLinesCannotBeForged(t *testing.T) {
	t.Parallel()
	const attack = "x\n2026-01-01 INFO root logged in \x1b[2K\u202eevil\u200b\u2028"
	for _, text := range []bool{false, true} {
		var out bytes.Buffer
		log := telemetry.NewLogger(&out, telemetry.LogOptions{Text: text})
		log.Info(attack, "value", attack, "error", errors.New(attack), attack, 1)
		got := out.String()
		if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\u202e\u200b\u2028") {
			t.Errorf("text %v: the attack got through: %q", text, got)
		}
	}
}

func TestNeutral(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                        "",
		"plain, ünïcödé, 日本 👍":    "plain, ünïcödé, 日本 👍",
		"a\nb\r\tc":               `a\nb\r\tc`,
		"\x1b[31mred\x07\x00\x7f": `\x1b[31mred\x07\x00\x7f`,
		"c1 \u0085\u009b":         `c1 \x85\x9b`,
		"\u202ebidi\u2066":        `\u{202e}bidi\u{2066}`,
		"zero\u200bwidth\ufeff":   `zero\u{200b}width\u{feff}`,
		"tag \U000e0041":          `tag \u{e0041}`,
		"lines\u2028\u2029":       `lines\u{2028}\u{2029}`,
	}
	for in, want := range tests {
		if got := telemetry.Neutral(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzNeutral(f *testing.F) {
	f.Add("a\x1b[0m\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		once := telemetry.Neutral(s)
		if twice := telemetry.Neutral(once); twice != once {
			t.Errorf("%q is neutral only at the second go: %q, %q", s, once, twice)
		}
	})
}

func decode(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range bytes.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, m)
	}
	return lines
}
