// Package deploytest holds the files of a deployment against the services: docker-compose.yml, deploy/ and k8s/.
package deploytest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/goccy/go-yaml"
)

const root = "../.."

// program is a service as a deployment sees it.
type program struct {
	settings any                     // its struct of pkg/config/env
	load     func(env.Environ) error // reads the environment as the service does
	port     string                  // for clients, "" = none
}

// adminPort is the port of the admin servers in all deployments.
const adminPort = "9090"

func loader[T any](check func(T) error) func(env.Environ) error {
	return func(vars env.Environ) error {
		settings, err := env.Load[T](vars)
		if err != nil || check == nil {
			return err
		}
		return check(settings)
	}
}

func programs() map[string]program {
	access := func(auth env.Auth, addr string, pepper env.Secret) error {
		required, err := auth.Required(addr)
		if err == nil && required && pepper == "" {
			return fmt.Errorf("AUTH=%s without KEY_PEPPER", auth)
		}
		return err
	}
	return map[string]program{
		"gateway":       {env.Gateway{}, loader(func(g env.Gateway) error { return access(g.Auth, g.HTTPAddr, g.KeyPepper) }), "8080"},
		"hub":           {env.Hub{}, loader(func(h env.Hub) error { return access(h.Auth, h.HTTPAddr, h.KeyPepper) }), "8081"},
		"agent-runner":  {env.AgentRunner{}, loader[env.AgentRunner](nil), ""},
		"tool-executor": {env.ToolExecutor{}, loader[env.ToolExecutor](nil), ""},
		"history":       {env.History{}, loader[env.History](nil), ""},
		"agent-server":  {env.AgentServer{}, loader[env.AgentServer](nil), "4001"},
	}
}

// variables returns the names of the variables in a struct of pkg/config/env.
func variables(settings reflect.Type) []string {
	var names []string
	for _, field := range fields(settings) {
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// fields returns the fields of a struct and of the structs in it.
func fields(settings reflect.Type) []reflect.StructField {
	var all []reflect.StructField
	for field := range settings.Fields() {
		if field.Type.Kind() == reflect.Struct {
			all = append(all, fields(field.Type)...)
		} else {
			all = append(all, field)
		}
	}
	return all
}

// ofProviders matches the variables that are read by name: those of the models, and OpenTelemetry's.
var ofProviders = regexp.MustCompile(`^(OPENAI|ANTHROPIC)_(API_KEY|BASE_URL|MODEL)$|^OTEL_`)

// checkVariables checks that a service reads each of the variables, and starts with their values.
func checkVariables(t *testing.T, service string, vars env.Environ) {
	t.Helper()
	p := programs()[service]
	read := variables(reflect.TypeOf(p.settings))
	plain := env.Environ{}
	for name, value := range vars {
		base := strings.TrimSuffix(name, "_FILE")
		if !slices.Contains(read, name) && !slices.Contains(read, base) && !ofProviders.MatchString(base) {
			t.Errorf("%s: it does not read the variable %s", service, name)
		}
		plain[base] = value
		if slices.Contains(read, name) {
			plain[name] = value
		}
	}
	if err := p.load(plain); err != nil {
		t.Errorf("%s: %v", service, err)
	}
}

// setting is the value of a variable: that of a deployment, or else the service's default.
func setting(t *testing.T, service, name string, vars env.Environ) string {
	t.Helper()
	if value := vars[name]; value != "" {
		return value
	}
	for _, field := range fields(reflect.TypeOf(programs()[service].settings)) {
		if tag, _, _ := strings.Cut(field.Tag.Get("env"), ","); tag == name {
			return field.Tag.Get("envDefault")
		}
	}
	t.Fatalf("%s has no variable %s", service, name)
	return ""
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestConfigurationsOfDeploymentsAreValid(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"deploy/demo.yaml", "deploy/config.example.yaml"} {
		if _, err := config.Load(filepath.Join(root, file), config.Default(func(string) string { return "" }), config.Known{}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestDockerfileHasATargetForEachProgram(t *testing.T) {
	t.Parallel()
	file := string(read(t, "deploy/Dockerfile"))
	stages := map[string]string{}
	for _, stage := range strings.Split(file, "\nFROM ")[1:] {
		head, body, _ := strings.Cut(stage, "\n")
		_, name, _ := strings.Cut(head, " AS ")
		stages[name] = body
	}
	for name, p := range programs() {
		body := stages[name]
		for _, want := range []string{
			"COPY --from=files /bin/" + name + " /" + name + "\n", "/sbom/" + name + ".cdx.json", `ENTRYPOINT ["/` + name + `"]`,
			"ADMIN_ADDR=:" + adminPort, adminPort + "\n",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("target %s lacks %q", name, want)
			}
		}
		if p.port != "" && (!strings.Contains(body, "HTTP_ADDR=:"+p.port) || !strings.Contains(body, "EXPOSE "+p.port)) {
			t.Errorf("target %s does not listen on port %s", name, p.port)
		}
	}
	if !strings.Contains(stages["agentbus"], `ENTRYPOINT ["/agentbus"]`) {
		t.Error("there is no target agentbus")
	}
	if !strings.Contains(stages["base"], "USER 65532:65532") {
		t.Error("the images do not run as user 65532")
	}
}
