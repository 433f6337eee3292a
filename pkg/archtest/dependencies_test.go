package archtest_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dependency is a module that we import directly. Files of tests, and packages named …test, may import all of them.
type dependency struct {
	module string
	where  []string // the packages that may import it; none = tests alone
	why    string
}

// dependencies is the reviewed list: each line answers why the standard library does not do.
func dependencies() []dependency {
	everywhere := []string{"..."}
	observed := []string{"pkg/bus/...", "pkg/rediscache", "pkg/telemetry/...", "pkg/service/...", "pkg/client", "pkg/tool/mcp", "services/...", "cmd/..."}
	telemetry := []string{"pkg/telemetry/..."}
	return []dependency{
		// What the product is about.
		{"github.com/nats-io/nats.go", []string{"pkg/bus/...", "cmd/chaos/internal/observer"},
			"the broker's client; only the bus knows that it is NATS, and a witness must not trust the bus"},
		{"github.com/coreos/go-oidc/v3", []string{"pkg/auth/oidc"}, "discovery, keys and signatures of identity providers"},
		{"github.com/go-jose/go-jose/v4", []string{"pkg/auth/oidc/..."}, "signs the tokens of an identity provider in tests"},
		{"github.com/nats-io/nkeys", []string{"pkg/bus/permissions"}, "the keys with which services authenticate to the broker"},
		{"github.com/nats-io/nats-server/v2", []string{"pkg/bus/embedded"}, "the broker itself, for one process without installation"},
		{"github.com/redis/go-redis/v9", []string{"pkg/rediscache"}, "continuation and abort state, shared between gateways"},
		{"github.com/redis/go-redis/extra/redisotel/v9", []string{"pkg/rediscache"}, "spans of Redis calls"},
		{"github.com/go-redis/redis_rate/v10", []string{"pkg/rediscache"}, "one rate limit for all gateways: GCRA in one Redis script"},
		{"github.com/alicebob/miniredis/v2", []string{"cmd/..."}, "Redis for one process without installation, and for tests"},
		{"github.com/gin-gonic/gin", []string{"services/gateway/internal/api"}, "routes of the gateway"},
		{"github.com/coder/websocket", []string{"services/gateway/internal/protocol", "cmd/chaos/internal/workload"}, "RFC 6455, with contexts and no goroutine of its own"},
		{"github.com/google/uuid", []string{"pkg/id"}, "UUIDv7: ids that sort by time"},

		// Formats.
		{"github.com/go-json-experiment/json", everywhere, "strict JSON: case-sensitive, no duplicate names, unknown members kept"},
		{"github.com/goccy/go-yaml", []string{"pkg/config/..."}, "the configuration file, with line and column of every mistake"},
		{"github.com/caarlos0/env/v11", []string{"pkg/config/..."}, "the environment as a struct"},
		{"github.com/santhosh-tekuri/jsonschema/v6", []string{"pkg/tool/...", "pkg/eventschema"},
			"JSON Schema 2020-12: arguments of tools, types of events, and the contract's tests"},
		{"github.com/getkin/kin-openapi", nil, "the OpenAPI document is valid"},
		{"k8s.io/api", nil, "the manifests have the fields of Kubernetes"},
		{"k8s.io/apimachinery", nil, "selectors and metadata of the manifests"},
		{"k8s.io/pod-security-admission", nil, "the pods of the manifests fit the policy restricted, by Kubernetes' own checks"},

		{"golang.org/x/net", []string{"services/gateway/internal/protocol/tarko/frontend", "pkg/sandbox"},
			"HTML as browsers read it: which scripts are a page's own; instructions of a filter of system calls"},
		{"github.com/klauspost/compress", []string{"pkg/event", "services/gateway/internal/protocol"}, "Snappy: frames shrink to an eighth, at a gigabyte a second. gzip, with its negotiation"},

		// Models.
		{"github.com/openai/openai-go/v3", []string{"pkg/backend/openai"}, "the provider's own client"},
		{"github.com/anthropics/anthropic-sdk-go", []string{"pkg/backend/anthropic"}, "the provider's own client"},

		{"github.com/standard-webhooks/standard-webhooks/libraries", []string{"pkg/backend/httpagent", "services/gateway/internal/webhook"}, "signatures of requests to agents and of notifications, as Standard Webhooks defines them"},

		// Tools.
		{"github.com/modelcontextprotocol/go-sdk", []string{"pkg/tool/mcp", "services/hub/internal/mcp", "cmd/agentbus/..."},
			"MCP, client and server: the protocol's own SDK"},
		{"golang.org/x/oauth2", []string{"pkg/tool/mcp"}, "tokens for MCP servers"},

		// SQL.
		{"modernc.org/sqlite", []string{"services/history/internal/store/sqlite", "pkg/sqldb"}, "SQLite without C"},
		{"github.com/jackc/pgx/v5", []string{"services/history/internal/store/postgres", "pkg/sqldb", "cmd/chaos/internal/...", "internal/pgserver"}, "PostgreSQL"},
		{"github.com/pressly/goose/v3", []string{"services/history/internal/store/...", "pkg/sqldb"}, "migrations, safe with two processes at once"},

		// Watching it run.
		{"go.opentelemetry.io/otel", observed, "spans and propagation; never in the vocabulary"},
		{"go.opentelemetry.io/otel/trace", observed, "the interface of spans"},
		{"go.opentelemetry.io/otel/metric", observed, "the interface of metrics"},
		{"go.opentelemetry.io/otel/sdk", telemetry, "where spans go is decided in one place"},
		{"go.opentelemetry.io/otel/sdk/metric", telemetry, "where metrics go is decided in one place"},
		{"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", telemetry, "spans over OTLP"},
		{"go.opentelemetry.io/otel/exporters/prometheus", telemetry, "metrics for Prometheus"},
		{"github.com/prometheus/client_golang", telemetry, "the handler of /metrics"},
		{"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
			[]string{"services/gateway/internal/api", "pkg/client", "pkg/telemetry/...", "pkg/backend/..."}, "spans of HTTP"},

		// The command line, and small things of the Go project.
		{"github.com/alecthomas/kong", []string{"cmd/..."}, "the command line as a struct"},
		{"golang.org/x/term", []string{"cmd/agentbus/internal/prompt"}, "line editing at a terminal, with a history"},
		{"github.com/creack/pty", nil, "a terminal for tests of the chat"},
		{"github.com/failsafe-go/failsafe-go", []string{"pkg/retry", "pkg/rediscache"}, "retries with growing delays, and a circuit breaker"},
		{"github.com/gofrs/flock", []string{"pkg/datadir"}, "file locks on every system that agentbus runs on"},
		{"golang.org/x/sync", []string{"pkg/...", "services/...", "cmd/..."}, "errgroup, singleflight"},
		{"golang.org/x/sys", []string{"cmd/chaos/internal/cluster", "pkg/sandbox"},
			"the ioctl that makes a file system lose what is not synced; namespaces and mounts of a sandbox"},
		{"github.com/elastic/go-seccomp-bpf", []string{"pkg/sandbox"}, "a policy of system calls as a seccomp filter, without C"},
		{"golang.org/x/time", []string{"pkg/rediscache", "pkg/limit"}, "a rate limit within one process"},
		{"github.com/chromedp/chromedp", nil, "a real browser, for tests of what people see"},
		{"golang.org/x/tools", nil, "txtar: golden transcripts; packages: the binaries compile on every system"},
		{"pgregory.net/rapid", nil, "property tests"},
		{"github.com/anishathalye/porcupine", nil, "records are linearizable, whatever the broker does to them"},
	}
}

func TestModulesAreUsedWhereTheyMay(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		for _, name := range f.imports {
			if isOurs(name) {
				continue
			}
			d, ok := dependencyOf(name)
			if !ok {
				t.Errorf("%s imports %s, whose module is not in dependencies(): add a line with the reason", f.path, name)
				continue
			}
			if !f.isTestSupport() && !matchAny(d.where, f.path) {
				t.Errorf("%s imports %s, but only %v may: %s", f.path, name, d.where, d.why)
			}
		}
		for _, name := range f.testImports {
			if _, ok := dependencyOf(name); !ok && !isOurs(name) {
				t.Errorf("a test of %s imports %s, whose module is not in dependencies(): add a line with the reason", f.path, name)
			}
		}
	}
}

// dependencyOf finds the module of an import: the longest path in the list that it begins with.
func dependencyOf(name string) (found dependency, ok bool) {
	for _, d := range dependencies() {
		if (name == d.module || strings.HasPrefix(name, d.module+"/")) && len(d.module) > len(found.module) {
			found, ok = d, true
		}
	}
	return found, ok
}

func TestDirectDependenciesAreReviewed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var required []string
	for _, line := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+) v\S+$`).FindAllStringSubmatch(string(text), -1) {
		required = append(required, line[1])
	}
	var listed []string
	for _, d := range dependencies() {
		if listed = append(listed, d.module); d.why == "" {
			t.Errorf("%s has no reason", d.module)
		}
	}
	for _, name := range required {
		if !slices.Contains(listed, name) {
			t.Errorf("go.mod requires %s, which is not in dependencies(): add a line with the reason", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(required, name) {
			t.Errorf("dependencies() lists %s, which go.mod does not require directly: drop the line", name)
		}
	}
}
