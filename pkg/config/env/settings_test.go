package env_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config/env"
)

// setting is a variable of a service.
type setting struct {
	required bool
	fallback string
	services []string
}

// settings adds the variables of a struct of the environment.
func settings(all map[string]setting, service string, of reflect.Type) {
	for field := range of.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("env"), ",")
		if name == "" {
			settings(all, service, field.Type)
			continue
		}
		s := all[name]
		s.required = s.required || options == "required"
		if fallback := field.Tag.Get("envDefault"); !strings.Contains(s.fallback, fallback) {
			s.fallback += " " + fallback
		}
		s.services = append(s.services, service)
		all[name] = s
	}
}

// row is a row of the table: its variable, services and defaults.
var row = regexp.MustCompile("(?m)^\\| (\\*\\*)?`([A-Z_]+)`[^|]*\\| ([^|]*)\\| ([^|]*)\\|")

func TestEverySettingIsInTheTableOfTheDocs(t *testing.T) {
	t.Parallel()
	want := map[string]setting{}
	services := map[string]any{
		"gateway": env.Gateway{}, "agent-runner": env.AgentRunner{}, "tool-executor": env.ToolExecutor{},
		"history": env.History{}, "hub": env.Hub{},
	}
	for name, service := range services {
		settings(want, name, reflect.TypeOf(service))
	}
	text, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string][]string{}
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		table[found[2]] = found
	}
	for name, s := range want {
		found, ok := table[name]
		if !ok {
			t.Errorf("docs/operate.md, Settings, has no row of %s", name)
			continue
		}
		if bold := found[1] != ""; bold != (s.required || name == "KEY_PEPPER") { // required unless AUTH is off
			t.Errorf("%s: bold %t, required %t", name, bold, s.required)
		}
		for _, service := range s.services {
			if all := strings.TrimSpace(found[3]) == "all"; all && len(s.services) < len(services) || !all && !strings.Contains(found[3], service) {
				t.Errorf("%s: got the services %q, want %s", name, found[3], s.services)
			}
		}
		for fallback := range strings.FieldsSeq(s.fallback) {
			if !strings.Contains(found[4], "`"+fallback+"`") {
				t.Errorf("%s: got the default %q, want %q", name, found[4], fallback)
			}
		}
		delete(table, name)
	}
	for name := range table {
		if !strings.HasPrefix(name, "OPENAI_") && !strings.HasPrefix(name, "OTEL_") {
			t.Errorf("docs/operate.md, Settings, has %s, which no service reads", name)
		}
	}
}
