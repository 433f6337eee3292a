package telemetry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/telemetry"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// collector is an OTLP receiver that hands over the bodies it gets.
func collector(t *testing.T) (url string, got <-chan []byte) {
	t.Helper()
	requests := make(chan []byte, 4)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		requests <- body
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func environ(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// Not parallel: it sets OpenTelemetry's globals, as a process does once.
func TestSetup(t *testing.T) {
	url, spans := collector(t)
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{
		Service: "gateway", Version: "1.2.3",
		Getenv: environ(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url + "/"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := otel.Tracer("test").Start(t.Context(), "work")

	headers := map[string]string{}
	telemetry.Inject(ctx, headers)
	far := trace.SpanContextFromContext(telemetry.Extract(t.Context(), headers))
	if far.TraceID() != span.SpanContext().TraceID() || far.SpanID() != span.SpanContext().SpanID() || !far.IsSampled() {
		t.Errorf("the trace got lost in %v: %v", headers, far)
	}
	span.SetAttributes(telemetry.RequestID.String("req_1"))
	span.End()

	counter, err := otel.Meter("test").Int64Counter("agentbus_test_total")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(ctx, 3)
	if text := scrape(t, tel.Metrics); !strings.Contains(text, "agentbus_test_total{") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("the metrics lack what was counted:\n%s", text)
	}

	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	request := <-spans
	// Protobuf contains texts unchanged, so this needs no decoder.
	for _, want := range []string{"service.name", "gateway", "1.2.3", "work", "agentbus.request.id", "req_1"} {
		if !bytes.Contains(request, []byte(want)) {
			t.Errorf("the collector did not get %q", want)
		}
	}
}

func TestSpansAreRecordedOnlyForACollector(t *testing.T) {
	t.Parallel()
	const here = "http://127.0.0.1:1"
	tests := map[string]struct {
		env  map[string]string
		want bool
	}{
		"no collector":                    {nil, false},
		"a collector":                     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": here}, true},
		"a collector of traces":           {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": here + "/traces"}, true},
		"a collector and the SDK off":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": here, "OTEL_SDK_DISABLED": "TRUE"}, false},
		"a collector and no traces":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": here, "OTEL_TRACES_EXPORTER": "none"}, false},
		"a collector and the SDK not off": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": here, "OTEL_SDK_DISABLED": "false"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tel, err := telemetry.New(t.Context(), telemetry.Options{Service: "s", Getenv: environ(test.env)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tel.Shutdown(context.WithoutCancel(t.Context())) }) // nothing is held back
			_, span := telemetry.Tracer(tel).Start(t.Context(), "work")                // never ended, so nothing is sent
			if span.IsRecording() != test.want {
				t.Errorf("recording: got %v, want %v", span.IsRecording(), test.want)
			}
			if !span.SpanContext().TraceID().IsValid() {
				t.Error("a span without a trace id: logs could not be joined")
			}
		})
	}
}

// Baggage is what a client sends: it would be stored with each message of its request.
func TestBaggageOfClientsIsNotCarriedOn(t *testing.T) {
	tel, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", Getenv: environ(nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.WithoutCancel(t.Context())) }) // nothing is held back
	header := map[string]string{"baggage": "k=v"}
	global := otel.GetTextMapPropagator()
	for _, ctx := range []context.Context{
		telemetry.Extract(t.Context(), header), global.Extract(t.Context(), propagation.MapCarrier(header)),
	} {
		kept := map[string]string{}
		telemetry.Inject(ctx, kept)
		global.Inject(ctx, propagation.MapCarrier(kept))
		if len(kept) > 0 {
			t.Errorf("got %v, want no baggage", kept)
		}
	}
}

func TestExtractWithoutATraceChangesNothing(t *testing.T) {
	t.Parallel()
	for _, headers := range []map[string]string{nil, {}, {"traceparent": "nonsense"}, {"traceparent": "00-0-0-00"}} {
		if span := trace.SpanContextFromContext(telemetry.Extract(t.Context(), headers)); span.IsValid() {
			t.Errorf("%v gave %v", headers, span)
		}
	}
}

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("metrics: %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}
