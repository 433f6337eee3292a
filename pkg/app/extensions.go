package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend/catalog"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

// Extensions are the backends and tools that a program adds to those of agentbus.
type Extensions struct {
	Backends map[string]catalog.Factory // by the name that the configuration of an agent uses
	Tools    []tool.Tool
}

// Check reports a name that is not valid or that occurs twice, and a tool without a schema.
func (e Extensions) Check() error {
	for name, open := range e.Backends {
		switch {
		case !id.Valid(name):
			return fmt.Errorf("backend %.80q: its name must have letters, digits, _ and - only", name)
		case slices.Contains(catalog.Names(), name):
			return fmt.Errorf("backend %q: agentbus has a backend of this name; choose another", name)
		case open == nil:
			return fmt.Errorf("backend %q: its factory is nil", name)
		}
	}
	names := slices.Concat(builtin.Names(), builtin.HubNames())
	for _, t := range e.Tools {
		spec := t.Spec()
		switch {
		case !id.Valid(spec.Name):
			return fmt.Errorf("tool %.80q: its name must have letters, digits, _ and - only", spec.Name)
		case slices.Contains(names, spec.Name):
			return fmt.Errorf("tool %q: there is another tool of this name; choose another", spec.Name)
		case len(spec.Schema) == 0:
			return fmt.Errorf("tool %q: it has no schema; use {\"type\":\"object\"} for a tool without arguments", spec.Name)
		}
		names = append(names, spec.Name)
	}
	return nil
}

// Known describes what a configuration may use. It does not check secrets.
func (e Extensions) Known() config.Known {
	known := config.Known{
		Backends: slices.Concat(catalog.Names(), slices.Sorted(maps.Keys(e.Backends))),
		Tools:    slices.Concat(builtin.Names(), builtin.HubNames()),
		Script:   catalog.CheckScript,
		Places:   builtin.Places,
	}
	for _, t := range e.Tools {
		known.Tools = append(known.Tools, t.Spec().Name)
	}
	return known
}
