package builtin_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

func TestExecutorsAndModelsSeeTheSameSpecs(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Tools: map[string]config.Tool{
		"echo":  {Approval: tool.ApprovalAlways, Effect: tool.EffectUnsafe, Timeout: config.Duration(3 * time.Second), MaxOutput: 99},
		"clock": {},
	}}
	tools, err := builtin.Tools(cfg)
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
	if want := slices.Sorted(maps.Keys(specs)); !slices.Equal(names, want) || !slices.Equal(builtin.Names(), want) {
		t.Errorf("got tools %v and names %v, want %v", names, builtin.Names(), want)
	}
	if got := specs["echo"]; got.Approval != tool.ApprovalAlways || got.Effect != tool.EffectUnsafe ||
		got.Timeout != 3*time.Second || got.MaxOutput != 99 {
		t.Errorf("echo: got %+v, want what the configuration sets", got)
	}
	if got := specs["clock"]; got.Approval != tool.ApprovalNever || got.Effect != tool.EffectNone || got.Timeout == 0 {
		t.Errorf("clock: got %+v, want its own spec", got)
	}
}

func TestToolsNamesAWrongAllowEntry(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Tools: map[string]config.Tool{"http_get": {Allow: []string{"http://wiki"}}}}
	if _, err := builtin.Tools(cfg); err == nil || !strings.Contains(err.Error(), "tools.http_get.allow") {
		t.Errorf("got %v, want an error that names tools.http_get.allow", err)
	}
}
