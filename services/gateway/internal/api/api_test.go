package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/agentlist"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
)

// broken is an API without a bus: what asks for one panics.
func broken(t *testing.T) (url string, log *strings.Builder) {
	t.Helper()
	handler, log := brokenHandler(t)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, log
}

func brokenHandler(t *testing.T) (handler http.Handler, log *strings.Builder) {
	t.Helper()
	meter, err := metrics.New(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	log = &strings.Builder{}
	services := protocol.Services{
		Meter: meter, Streamer: stream.NewStreamer(time.Second, time.Second, meter), Remotes: new(agentlist.Agents), Log: slog.New(slog.NewJSONHandler(log, nil)),
	}
	handler, err = api.New(api.Deps{
		Host: protocol.NewHost(services), Protocols: []protocol.Protocol{native.New(services)}, Log: services.Log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler, log
}

func get(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func TestPanicIsInternalErrorAndServerContinues(t *testing.T) {
	t.Parallel()
	url, log := broken(t)
	status, _, body := get(t, url+"/v1/threads/t")
	e, err := event.Decode([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := e.Body.(event.Error); status != 500 || !ok || f.Code != apierr.Internal || strings.Contains(body, "nil pointer") {
		t.Errorf("got %d %s, want internal_error that gives nothing away", status, body)
	}
	if !strings.Contains(log.String(), "nil pointer") {
		t.Errorf("the log says nothing of the panic: %s", log)
	}
	if status, _, _ := get(t, url+"/healthz"); status != 200 {
		t.Errorf("afterwards: got %d", status)
	}
}

func TestResponsesNameTheirTrace(t *testing.T) {
	otel.SetTracerProvider(trace.NewTracerProvider()) // what telemetry does in a service
	otel.SetTextMapPropagator(propagation.TraceContext{})
	url, _ := broken(t)
	_, header, _ := get(t, url+"/v1/agents")
	if id := header.Get("X-Trace-Id"); !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("got trace id %q", id)
	}
	const theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/agents", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", "00-"+theirs+"-00f067aa0ba902b7-01")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if id := resp.Header.Get("X-Trace-Id"); id == theirs || id == "" {
		t.Errorf("a client chose the trace %q that its request is recorded in", id)
	}
}
