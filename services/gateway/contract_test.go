package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/schemas"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/getkin/kin-openapi/openapi3"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestEveryDocumentedRouteIsServed(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(schemas.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, func(d *gateway.Deps) { d.Metrics = http.NotFoundHandler() })
	ids := strings.NewReplacer("{agentName}", "demo", "{requestId}", "req_none", "{threadId}", "thr_none", "{objectId}", "obj_none")
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			a := b.do(b.request(method, ids.Replace(path), ""))
			if strings.Contains(a.body, `"code":"`+string(apierr.RouteNotFound)+`"`) {
				t.Errorf("%s %s: got %d %s", method, path, a.status, a.body)
			}
		}
	}
}

func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(schemas.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range start(t).routes() {
		path := r.path
		for _, name := range r.params() {
			path = strings.Replace(path, name, "{"+name[1:]+"}", 1)
		}
		if item := doc.Paths.Find(path); item == nil || item.GetOperation(r.method) == nil {
			t.Errorf("%s is not documented", r)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	b := start(t, func(d *gateway.Deps) { d.MeterProvider = sdk.NewMeterProvider(sdk.WithReader(reader)) })
	b.runs(metadata(), delta("a"), done())
	if a := b.post("/v1/agents/demo/stream", hello); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	b.archive.keep(frame(t, 0, metadata(), done()))
	b.get("/v1/requests/req_old/stream")
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
		}
	}
	for _, want := range []string{
		"agentbus.gateway.requests", "agentbus.gateway.streams", "agentbus.gateway.events",
		"agentbus.gateway.first.event", "agentbus.gateway.replays",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("got metrics %v, want %s among them", names, want)
		}
	}
}

// TestWithoutABus takes the broker away from a gateway that has worked.
func TestWithoutABus(t *testing.T) {
	t.Parallel()
	broker, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	b, err := bus.Connect(t.Context(), bus.Options{URL: broker.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), bus.Storage{Memory: true}); err != nil {
		t.Fatal(err)
	}
	store, err := rediscache.Open("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	g, err := gateway.New(gateway.Deps{
		Bus: b, History: historyapi.NewClient(b), State: store,
		Config: config.Config{Agents: map[string]config.Agent{"demo": {Backend: "scripted"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	bench := &bench{t: t, bus: b, server: server}
	requestID, threadID := bench.accepted(hello)
	broker.Close()
	begin := time.Now()
	for _, a := range []answer{
		bench.post("/v1/agents/demo/stream", hello), bench.post("/v1/agents/demo/requests", onThread(threadID)),
		bench.get("/v1/requests/" + requestID), bench.get("/v1/requests/" + requestID + "/stream"),
		bench.get("/v1/threads"), bench.post("/v1/requests/"+requestID+"/abort", ""),
	} {
		if a.status != http.StatusServiceUnavailable || a.failure(t).Code != apierr.Unavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("got %d %s %v", a.status, a.body, a.err)
		}
	}
	t.Logf("six refusals took %v", time.Since(begin))
	if a := bench.get("/readyz"); a.status != http.StatusServiceUnavailable {
		t.Errorf("readyz: got %d", a.status)
	}
	if a := bench.get("/v1/agents"); a.status != http.StatusOK {
		t.Errorf("agents: got %d", a.status)
	}
}
