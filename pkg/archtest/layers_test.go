package archtest_test

import (
	"slices"
	"strings"
	"testing"
)

// layer says which of our packages the ones that match where may import. $1 in may stands for the first star of where.
// Files of tests, and packages named …test, are not bound by it: see TestTestsKeepTheBorders.
type layer struct {
	where string
	may   []string
	but   []string // of what may allows, these not
	why   string
}

// layers is read from the top; the first row that matches a package decides.
func layers() []layer {
	vocabulary := []string{
		"pkg/event", "pkg/apierr", "pkg/id", "pkg/media", "pkg/record", "pkg/historyapi", "pkg/redact", "pkg/tool", "pkg/backend",
	}
	and := func(more ...string) []string { return append(slices.Clone(vocabulary), more...) }
	implementations := []string{"services/*/internal/protocol/*/...", "services/*/internal/store/*"}
	return []layer{
		// The bottom: types that all packages share.
		{"pkg/apierr", nil, nil, "all packages import it"},
		{"pkg/id", nil, nil, "all packages import it"},
		{"pkg/redact", nil, nil, "all packages import it"},
		{"pkg/sse", nil, nil, "a wire format does not depend on events"},
		{"pkg/tarko/eventstream", []string{"pkg/apierr", "pkg/eventschema", "pkg/id"}, nil, "a stream within a program does not depend on the log or a service"},
		{"pkg/acp", nil, nil, "a wire protocol does not depend on events"},
		{"pkg/eventschema", nil, nil, "it validates JSON of every origin"},
		{"pkg/tarko", []string{"pkg/event", "pkg/tarko/eventstream", "pkg/apierr", "pkg/media"}, nil,
			"a projection depends on its input and its output"},
		{"pkg/budget", nil, nil, "it counts bytes of every kind"},
		{"pkg/egress", nil, nil, "it checks requests of every package"},
		{"pkg/limit", nil, nil, "limits for any server"},
		{"pkg/retry", nil, nil, "it repeats operations of every package"},
		{"pkg/datadir", nil, nil, "a folder for any process"},
		{"pkg/procgroup", nil, nil, "a group of processes for any program"},
		{"pkg/sandbox", nil, nil, "a box that anything may run in"},
		{"pkg/weaken", nil, nil, "it is a switch of test builds"},
		{"schemas", nil, nil, "the contract does not depend on code; its tests do"},
		{"pkg/event", []string{"pkg/apierr"}, nil, "events depend on errors alone"},
		{"pkg/media", []string{"pkg/event", "pkg/apierr"}, nil, "images and files are parts of events"},
		{"pkg/record", []string{"pkg/event", "pkg/apierr", "pkg/id"}, nil, "records contain events and errors"},
		{"pkg/hubapi", []string{"pkg/egress", "pkg/apierr", "pkg/event", "pkg/remoteagent", "pkg/tool"}, nil, "the API of the hub is also offered as tools"},
		{"pkg/historyapi", []string{"pkg/record", "pkg/event", "pkg/apierr"}, nil, "its messages contain events and records"},

		// Interfaces do not depend on implementations, nor implementations on each other.
		{"pkg/tool", []string{"pkg/event", "pkg/apierr", "pkg/id"}, nil, "an interface does not depend on its implementations"},
		{"pkg/tool/builtin", []string{"pkg/tool/...", "pkg/config", "pkg/contextvar", "pkg/egress", "pkg/event", "pkg/apierr", "pkg/hubapi", "pkg/id", "pkg/sandbox"}, nil,
			"it is the one list of the built-in tools"},
		{"pkg/tool/internal/eventline", []string{"pkg/event", "pkg/tool"}, nil, "it finds the events in the output of tools"},
		{"pkg/tool/internal/...", []string{"pkg/apierr", "pkg/id", "pkg/contextvar"}, nil, "shared code does not depend on implementations"},
		{"pkg/tool/hubtool", and("pkg/hubapi", "pkg/remoteagent"), nil, "it depends on the hub's API, and on no other implementation"},
		{"pkg/tool/command", and("pkg/sandbox", "pkg/tool/internal/..."), nil, "programs run in a sandbox only"},
		{"pkg/tool/mcp", and("pkg/egress", "pkg/procgroup", "pkg/contextvar", "pkg/tool/internal/..."), nil, "it starts servers, and depends on no other implementation"},
		{"pkg/tool/mcpconfig", []string{"pkg/config", "pkg/egress", "pkg/tool/mcp"}, nil, "it makes MCP servers of the configuration"},
		{"pkg/tool/*", and("pkg/egress", "pkg/tool/internal/..."), nil, "an implementation depends on its interface and no other implementation"},
		{"pkg/backend", []string{"pkg/event", "pkg/apierr", "pkg/tool"}, nil, "an interface does not depend on its implementations"},
		{"pkg/backend/internal/program", and("pkg/procgroup"), nil, "it starts the programs of backends"},
		{"pkg/backend/internal/upstream", and("pkg/sse"), nil, "it reads the streams of providers and agents"},
		{"pkg/backend/internal/...", vocabulary, nil, "shared code does not depend on implementations"},
		{"pkg/backend/remote", and("pkg/backend/internal/...", "pkg/hubapi", "pkg/remoteagent", "pkg/retry"), nil,
			"it calls the hub and its agents, and depends on no other implementation"},
		{"pkg/backend/acp", and("pkg/acp", "pkg/backend/internal/...", "pkg/procgroup"), nil, "it speaks the protocol with the programs that it runs"},
		{"pkg/backend/catalog", and("pkg/backend/...", "pkg/config"), nil, "it is the one list of the backends"},
		{"pkg/backend/cli", and("pkg/backend/cli/wire", "pkg/backend/internal/...", "pkg/procgroup"), nil, "it decodes the output of the programs that it runs"},
		{"pkg/backend/cli/wire", vocabulary, nil, "a decoder does not depend on processes"},
		{"pkg/backend/*", and("pkg/backend/internal/...", "pkg/sse"), nil,
			"an implementation depends on its interface and no other implementation"},
		{"services/gateway/internal/codec", and("pkg/sse"), nil, "an interface does not depend on its implementations"},
		{"services/gateway/internal/protocol/*/wire/...",
			and("services/gateway/internal/codec", "services/gateway/internal/protocol/$1/wire", "pkg/sse", "pkg/tarko", "pkg/tarko/eventstream"), nil,
			"a codec is a projection of a log: it imports neither the bus nor HTTP nor another protocol"},
		{"services/gateway/internal/protocol/*/...",
			[]string{"services/gateway/internal/protocol/$1/...", "services/gateway/internal/*", "pkg/...", "schemas"}, nil,
			"a protocol does not depend on another protocol"},
		{"services/history/internal/store", vocabulary, nil, "an interface does not depend on its implementations"},
		{"services/history/internal/store/sqlstore", and("services/history/internal/store"), nil, "shared code depends on neither database"},
		{"services/history/internal/store/*",
			and("services/history/internal/store", "services/history/internal/store/sqlstore", "pkg/datadir"), nil,
			"a store depends on its interface and no other store"},

		// What services share.
		{"pkg/transcript", vocabulary, nil, "the fold depends on events alone"},
		{"pkg/threadqueue", []string{"pkg/record", "pkg/event"}, nil, "the queue depends on records, not on their storage"},
		{"pkg/loop", and("pkg/transcript", "pkg/weaken"), nil, "the turn loop depends on neither NATS nor HTTP"},
		{"pkg/config/...", and("pkg/config/...", "pkg/contextvar"), nil, "configuration does not depend on services"},
		{"pkg/bus/internal/broker", vocabulary, nil, "streams are read and written the same whatever they hold"},
		{"pkg/bus/weakbus", []string{"pkg/bus", "pkg/bus/internal/broker", "pkg/weaken"}, nil, "it decorates the broker from outside"},
		{"pkg/bus/eventlog", and("pkg/budget", "pkg/bus/internal/broker"), nil, "a log depends on no other record"},
		{"pkg/bus/projection", and("pkg/bus/internal/broker", "pkg/bus/eventlog"), nil, "an entry is a frame of a log or a record"},
		{"pkg/bus/*", and("pkg/bus/internal/broker"), nil, "logs, records, queues and buckets do not depend on one another"},
		{"pkg/bus", and("pkg/budget", "pkg/bus/*", "pkg/bus/internal/broker"), nil, "it puts the parts of the bus together"},
		{"pkg/rediscache", and("pkg/telemetry"), nil, "the cache does not depend on services"},
		{"pkg/auth", vocabulary, nil, "keys do not depend on their storage"},
		{"pkg/client", and("pkg/sse"), nil, "a client depends on the documented protocol alone"},
		{"pkg/remoteagent", []string{"pkg/event", "pkg/apierr", "pkg/sse"}, nil, "the protocol between hub and agent-server depends on neither"},
		{"pkg/telemetry/...", []string{"pkg/apierr", "pkg/telemetry/..."}, nil, "all services import it"},
		{"pkg/service/...", []string{"pkg/apierr", "pkg/retry", "pkg/service/...", "pkg/telemetry/..."}, nil, "a process does not depend on the service in it"},
		{"pkg/app", []string{"pkg/...", "internal/journal"}, nil, "it attaches the instruments of builds for tests of faults"},
		{"pkg/agentbus", []string{"cmd/agentbus/command", "pkg/..."}, nil, "it is the program, for other modules"},
		{"pkg/...", []string{"pkg/..."}, nil, "shared packages do not depend on services"},

		// What runs services as processes, for tests and measurements.
		{"internal/journal", []string{"pkg/apierr", "pkg/tool", "pkg/weaken"}, nil, "a tool of the fault harness, and the clock of its builds"},
		{"internal/loopback", nil, nil, "an address belongs to no server in particular"},
		{"internal/pgserver", nil, nil, "a PostgreSQL server is the same for every test"},
		{"internal/testcluster", []string{"internal/loopback", "internal/pgserver", "pkg/procgroup"}, nil,
			"it starts programs and imports none of them"},

		// Services, and the programs that combine them.
		{"services/e2e/...", []string{"..."}, nil, "end-to-end tests use everything"},
		{"services/*/cmd", []string{"services/$1", "pkg/..."}, nil, "a main function depends on its service alone"},
		{"services/*/internal/...", []string{"services/$1/internal/...", "pkg/...", "schemas"}, implementations,
			"services do not import one another, and only a service's root imports implementations"},
		{"services/*", []string{"services/$1/internal/...", "pkg/...", "schemas"}, nil, "services do not import one another"},
		{"docs/examples/extension", []string{"pkg/agentbus", "pkg/backend", "pkg/config", "pkg/event", "pkg/tool"}, nil,
			"it is a module of its own"},
		{"docs/examples/*", []string{"pkg/client", "pkg/event", "pkg/tarko/eventstream", "pkg/tarko"}, nil, "an example uses public packages"},
		{"cmd/*/...", []string{"cmd/$1/...", "services/*", "pkg/...", "schemas", "internal/..."}, nil,
			"it combines services by their roots; no package imports cmd"},
	}
}

func TestImportsFollowTheLayers(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		if f.isTestSupport() {
			continue
		}
		rule, stars, ok := layerOf(f.path)
		if !ok {
			t.Errorf("%s is in no layer: add a row to layers() that says what it may import", f.path)
			continue
		}
		for _, name := range f.imports {
			if !isOurs(name) || matchAny(rule.may, name, stars...) && !matchAny(rule.but, name) {
				continue
			}
			t.Errorf("%s imports %s, but %s may import only %v: %s", f.path, name, rule.where, rule.may, rule.why)
		}
	}
}

func TestTestsKeepTheBorders(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		if strings.HasPrefix(f.path, "services/e2e") || strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		names := f.testImports
		if f.isTestSupport() {
			names = append(slices.Clone(names), f.imports...)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "services/") && service(name) != service(f.path) {
				t.Errorf("a test of %s imports %s, but tests may import anything except another service: services/e2e is the place", f.path, name)
			}
		}
	}
}

// service is the name of the service that a path belongs to; "" for none.
func service(folderPath string) string {
	if rest, ok := strings.CutPrefix(folderPath, "services/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		return name
	}
	return ""
}

func layerOf(folderPath string) (rule layer, stars []string, ok bool) {
	for _, l := range layers() {
		if stars, ok := match(l.where, folderPath); ok {
			return l, stars, true
		}
	}
	return layer{}, nil, false
}

func TestTestSupportStaysInTests(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		for _, name := range f.imports {
			if isOurs(name) && isTestSupport(name) && !f.isTestSupport() {
				t.Errorf("%s imports %s, but packages named …test are for tests", f.path, name)
			}
		}
	}
}

func TestEveryPackageHasDocComment(t *testing.T) {
	t.Parallel()
	for _, f := range tree(t) {
		if f.hasCode && !f.documented {
			t.Errorf("%s has no package comment: say in one sentence what its place in the whole is", f.path)
		}
	}
}

func TestForbiddenNames(t *testing.T) {
	t.Parallel()
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "models", "impl"}
	for _, f := range tree(t) {
		for name := range strings.SplitSeq(f.path, "/") {
			if slices.Contains(vague, name) {
				t.Errorf("%s: %q says nothing; name the package by what its callers read", f.path, name)
			}
		}
	}
}
