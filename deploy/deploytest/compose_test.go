package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compose is what the tests read of docker-compose.yml.
type compose struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Profiles    []string          `yaml:"profiles"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	DependsOn   any               `yaml:"depends_on"`
	ReadOnly    bool              `yaml:"read_only"`
	User        string            `yaml:"user"`
	CapDrop     []string          `yaml:"cap_drop"`
	StopGrace   string            `yaml:"stop_grace_period"`
	Health      struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)

// interpolate replaces ${NAME:-default} as Compose does, with the values of vars.
func interpolate(text []byte, vars map[string]string) []byte {
	return variable.ReplaceAllFunc(text, func(match []byte) []byte {
		parts := variable.FindSubmatch(match)
		if value := vars[string(parts[1])]; value != "" {
			return []byte(value)
		}
		return parts[2]
	})
}

func loadCompose(t *testing.T) compose {
	t.Helper()
	text := interpolate(read(t, "docker-compose.yml"), nil)
	if strings.Contains(string(text), "${") {
		t.Fatal("docker-compose.yml has a variable without a default: one command would not start it")
	}
	var document any // first, since the decoder takes a key that overrides a merged one for a duplicate in a struct
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	merged, err := yaml.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(merged, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeFileIsValid(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("testdata/compose-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := yaml.Unmarshal(interpolate(read(t, "docker-compose.yml"), nil), &document); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(plain(document)); err != nil {
		t.Error(err)
	}
}

// plain returns a YAML value with the types that JSON has.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = plain(member)
		}
	case []any:
		for i, member := range v {
			v[i] = plain(member)
		}
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	}
	return value
}

func TestComposeRunsEachService(t *testing.T) {
	t.Parallel()
	services := loadCompose(t).Services
	for name, p := range programs() {
		s, ok := services[name]
		if !ok {
			t.Errorf("there is no service %s", name)
			continue
		}
		vars := env.Environ(s.Environment)
		checkVariables(t, name, vars)
		if s.Image != "agentbus/"+name+":dev" {
			t.Errorf("%s: image %s", name, s.Image)
		}
		if want := []string{"CMD", "/" + name, "ready"}; !slices.Equal(s.Health.Test, want) {
			t.Errorf("%s: the health check is %q, want %q", name, s.Health.Test, want)
		}
		if got := setting(t, name, "ADMIN_ADDR", vars); got != ":"+adminPort {
			t.Errorf("%s: ADMIN_ADDR is %s, and Prometheus scrapes port %s", name, got, adminPort)
		}
		checkPort(t, name, s, p.port)
		checkIsolation(t, name, s)
		checkStop(t, name, s.StopGrace, setting(t, name, "GRACE", vars))
	}
}

func checkPort(t *testing.T, name string, s composeService, port string) {
	t.Helper()
	if port == "" {
		if len(s.Ports) > 0 {
			t.Errorf("%s publishes %q and serves no clients", name, s.Ports)
		}
		return
	}
	if got := s.Environment["HTTP_ADDR"]; got != ":"+port {
		t.Errorf("%s: HTTP_ADDR is %q, want :%s", name, got, port)
	}
	if len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "127.0.0.1:") || !strings.HasSuffix(s.Ports[0], ":"+port) {
		t.Errorf("%s publishes %q, want port %s on loopback", name, s.Ports, port)
	}
}

func checkIsolation(t *testing.T, name string, s composeService) {
	t.Helper()
	if !s.ReadOnly || s.User != "65532:65532" || !slices.Equal(s.CapDrop, []string{"ALL"}) {
		t.Errorf("%s: read_only %v, user %s, cap_drop %v", name, s.ReadOnly, s.User, s.CapDrop)
	}
}

// flush is how long a process may take to send the last spans after its actors have stopped.
const flush = 3 * time.Second

// checkStop checks that a process is not killed before it has stopped.
func checkStop(t *testing.T, name, allowed, grace string) {
	t.Helper()
	limit, err := time.ParseDuration(allowed)
	if err != nil {
		t.Errorf("%s: the time for a stop: %v", name, err)
	}
	own, err := time.ParseDuration(grace)
	if err != nil {
		t.Errorf("%s: GRACE: %v", name, err)
	}
	if limit < own+flush {
		t.Errorf("%s is killed after %s, but may take %s (GRACE) and %s to stop", name, limit, own, flush)
	}
}

func TestComposeRefersToWhatExists(t *testing.T) {
	t.Parallel()
	c := loadCompose(t)
	for name, s := range c.Services {
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, "./") {
				if _, ok := c.Volumes[source]; !ok {
					t.Errorf("%s: there is no volume %s", name, source)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("%s mounts: %v", name, err)
			}
		}
		conditions, _ := s.DependsOn.(map[string]any)
		for other, condition := range conditions {
			needed, ok := c.Services[other]
			wanted, _ := condition.(map[string]any)
			if !ok || wanted["condition"] == "service_healthy" && len(needed.Health.Test) == 0 {
				t.Errorf("%s waits for the health of %s, which has no health check", name, other)
			}
			if len(needed.Profiles) > 0 && len(s.Profiles) == 0 {
				t.Errorf("%s needs %s, which only the profiles %q start", name, other, needed.Profiles)
			}
		}
	}
	checkVariables(t, "history", c.Services["setup"].Environment)
	if !slices.Equal(c.Services["setup"].Command, []string{"setup"}) {
		t.Errorf("setup runs %q", c.Services["setup"].Command)
	}
	if want := "nats:" + server.VERSION + "-alpine"; c.Services["nats"].Image != want {
		t.Errorf("the NATS server is %s, but the tests run with %s", c.Services["nats"].Image, want)
	}
}

func TestConfigurationsOfNATS(t *testing.T) {
	t.Parallel()
	c := loadCompose(t)
	for name, nodes := range map[string][]string{"single": nil, "cluster": {"nats", "nats-2", "nats-3"}} {
		options, err := server.ProcessConfigFile(filepath.Join(root, "deploy/nats", name+".conf"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !options.JetStream || options.StoreDir != "/data" || options.HTTPPort != 8222 || options.Port != 4222 {
			t.Errorf("%s: JetStream %v in %q, ports %d and %d", name, options.JetStream, options.StoreDir, options.Port, options.HTTPPort)
		}
		if (len(nodes) > 0) != options.SyncAlways {
			t.Errorf("%s: sync always is %v", name, options.SyncAlways)
		}
		for i, node := range nodes {
			if got := options.Routes[i].Hostname(); got != node || c.Services[node].Image == "" {
				t.Errorf("%s: route to %s, want the service %s", name, got, node)
			}
		}
	}
}

func TestPrometheusScrapesEachService(t *testing.T) {
	t.Parallel()
	var p struct {
		Jobs []struct {
			Targets []struct {
				Names []string `yaml:"names"`
				Port  string   `yaml:"port"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, "deploy/prometheus/prometheus.yml", &p)
	targets := p.Jobs[0].Targets[0]
	for name := range programs() {
		if !slices.Contains(targets.Names, name) || targets.Port != adminPort {
			t.Errorf("Prometheus does not scrape %s on port %s: %+v", name, adminPort, targets)
		}
	}
}
