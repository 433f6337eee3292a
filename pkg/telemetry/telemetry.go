// Package telemetry sets up the telemetry of all services: traces over OTLP, metrics for Prometheus, and logs with
// trace ids. Domain code uses the OpenTelemetry API only; [Setup] decides where the data goes.
//
// genai.go defines the names of spans and metrics of models and tools.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Options describe the process.
type Options struct {
	Service string              // service.name, unless OTEL_SERVICE_NAME says otherwise
	Version string              // service.version
	Getenv  func(string) string // nil = os.Getenv. The SDK itself always reads the real environment
}

// Telemetry is a set-up SDK.
type Telemetry struct {
	Metrics http.Handler // what Prometheus scrapes
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
}

// Setup makes the providers and sets them as OpenTelemetry's global ones. Spans go to the collector that
// OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) names, by HTTP; without one, or with
// OTEL_SDK_DISABLED=true or OTEL_TRACES_EXPORTER=none, none are recorded, while trace ids still travel. Sampling follows
// OTEL_TRACES_SAMPLER. A collector that is away costs spans and nothing else.
func Setup(ctx context.Context, o Options) (*Telemetry, error) {
	t, err := New(ctx, o)
	if err != nil {
		return nil, err
	}
	otel.SetTracerProvider(t.tracers)
	otel.SetMeterProvider(t.meters)
	otel.SetTextMapPropagator(propagator())
	return t, nil
}

// New is Setup without the global part.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	res, err := describe(ctx, o)
	if err != nil {
		return nil, err
	}
	tracers, err := newTracers(ctx, o, res)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, fmt.Errorf("metrics for Prometheus: %w", err)
	}
	return &Telemetry{
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}),
		tracers: tracers,
		meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(res)),
	}, nil
}

// Shutdown sends what is still held back, for as long as ctx allows.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	return errors.Join(t.tracers.Shutdown(ctx), t.meters.Shutdown(ctx))
}

func describe(ctx context.Context, o Options) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(
			attribute.String("service.name", o.Service),
			attribute.String("service.version", o.Version),
			attribute.String("service.namespace", "agentbus"),
		),
		resource.WithFromEnv(), // last: the environment wins
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe the service: %w", err)
	}
	return res, nil
}

func newTracers(ctx context.Context, o Options, res *resource.Resource) (*sdktrace.TracerProvider, error) {
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	if !exportsSpans(o.Getenv) {
		return sdktrace.NewTracerProvider(append(options, sdktrace.WithSampler(sdktrace.NeverSample()))...), nil
	}
	var endpoint []otlptracehttp.Option
	if base := o.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); base != "" {
		endpoint = append(endpoint, otlptracehttp.WithEndpointURL(strings.TrimRight(base, "/")+"/v1/traces"))
	}
	if exact := o.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); exact != "" {
		endpoint = []otlptracehttp.Option{otlptracehttp.WithEndpointURL(exact)}
	}
	exporter, err := otlptracehttp.New(ctx, endpoint...)
	if err != nil {
		return nil, fmt.Errorf("exporter of spans: %w", err)
	}
	return sdktrace.NewTracerProvider(append(options, sdktrace.WithBatcher(exporter))...), nil
}

func exportsSpans(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// propagator carries traces alone. Baggage is whatever a client sends: it would be stored with each message of a request,
// and go to every server that a tool calls.
func propagator() propagation.TextMapPropagator { return propagation.TraceContext{} }

// Inject writes the trace of ctx into headers.
func Inject(ctx context.Context, headers map[string]string) {
	propagator().Inject(ctx, propagation.MapCarrier(headers))
}

// Extract returns ctx with the trace that headers carry, or ctx when they carry none.
func Extract(ctx context.Context, headers map[string]string) context.Context {
	return propagator().Extract(ctx, propagation.MapCarrier(headers))
}
