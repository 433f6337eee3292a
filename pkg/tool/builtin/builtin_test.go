package builtin_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/sandbox"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

func TestExecutorsAndModelsSeeTheSameSpecs(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Files: config.Files{Root: t.TempDir()}, Tools: map[string]config.Tool{
		"write_file": {Approval: tool.ApprovalNever},
		"echo":       {Approval: tool.ApprovalAlways, Effect: tool.EffectUnsafe, Timeout: config.Duration(3 * time.Second), MaxOutput: 99},
		"clock":      {},
		"weather": {
			Description: "Returns the weather.", Timeout: config.Duration(time.Second),
			Schema: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
			HTTP:   config.HTTPTool{URL: "https://api.example.com/{city}"},
		},
		"count":  {Description: "Counts.", Command: config.CommandTool{Argv: []string{"wc"}, Isolation: config.IsolationBestEffort}},
		"report": {Description: "Reports.", HTTP: config.HTTPTool{Method: "POST", URL: "https://api.example.com"}},
	}}
	tools, err := builtin.Tools(cfg, noSecret)
	if err != nil {
		t.Fatal(err)
	}
	specs := builtin.Specs(cfg)
	var names []string
	for _, subject := range tools {
		spec := subject.Spec()
		names = append(names, spec.Name)
		if want := specs[spec.Name]; want.Approval != spec.Approval || want.Effect != spec.Effect ||
			want.Timeout != spec.Timeout || want.MaxOutput != spec.MaxOutput {
			t.Errorf("tool %s: got %+v, want %+v", spec.Name, spec, want)
		}
	}
	if want := slices.Sorted(maps.Keys(specs)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("got tools %v, want %v", names, want)
	}
	for _, want := range []string{"calculator", "clock", "echo", "http_get"} {
		if !slices.Contains(builtin.Names(), want) {
			t.Errorf("got names %v, want %s among them", builtin.Names(), want)
		}
	}
	if specs["write_file"].Approval != tool.ApprovalNever || specs["edit_file"].Approval != tool.ApprovalAlways {
		t.Error("who writes files asks first, unless the configuration says otherwise")
	}
	if specs["weather"].Effect != tool.EffectNone || specs["report"].Effect != tool.EffectUnsafe {
		t.Error("a GET leaves nothing behind, and a POST may")
	}
	if got := specs["echo"]; got.Approval != tool.ApprovalAlways || got.Effect != tool.EffectUnsafe ||
		got.Timeout != 3*time.Second || got.MaxOutput != 99 {
		t.Errorf("echo: got %+v, want what the configuration sets", got)
	}
	if got := specs["clock"]; got.Approval != tool.ApprovalNever || got.Effect != tool.EffectNone || got.Timeout == 0 {
		t.Errorf("clock: got %+v, want its own spec", got)
	}
}

func TestMain(m *testing.M) {
	sandbox.Enter()
	os.Exit(m.Run())
}

func noSecret(name string) (string, error) { return "", errors.New("no secret " + name) }

func TestToolsNamesAnEntryThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]config.Tool{
		"tools.http_get.allow: ":         {Allow: []string{"http://wiki"}},
		"tools.mine: allow: ":            {HTTP: config.HTTPTool{URL: "https://a.example"}, Allow: []string{"http://wiki"}},
		"tools.mine: argv[1]: ":          {Command: config.CommandTool{Argv: []string{"wc", "{"}}},
		"tools.mine: url: no secret KEY": {HTTP: config.HTTPTool{URL: "https://a.example/${KEY}"}},
	} {
		name, _, _ := strings.Cut(strings.TrimPrefix(want, "tools."), ".")
		name, _, _ = strings.Cut(name, ":")
		_, err := builtin.Tools(config.Config{Tools: map[string]config.Tool{name: cfg}}, noSecret)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want an error that begins with %q", err, want)
		}
	}
}

func TestTheFileToolsAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, set := range []config.Files{{}, {Root: t.TempDir()}, {Root: t.TempDir(), ReadOnly: true}} {
		specs := builtin.Specs(config.Config{Files: set})
		for _, name := range builtin.Names() {
			delete(specs, name)
		}
		if got := slices.Sorted(maps.Keys(specs)); !slices.Equal(got, set.Tools()) {
			t.Errorf("%+v: got %v, want %v", set, got, set.Tools())
		}
	}
}
